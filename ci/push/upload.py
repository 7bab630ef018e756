"""One parcel to one dashboard, and what its answer means."""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests

from warpwatch.dashboard.model.thresholds import StatedLimits
from warpwatch.dashboard.settings import is_loopback
from warpwatch.dashboard.web.urls import project_in_path

from ..retries import UnavailableError, asked_wait_s

_CONNECT_S, _ANSWER_S = 10, 900  # a parcel of many new series is analysed before the server answers
_COUNTS = ("files", "unchanged", "points", "series_analysed")
_AWAY = {400, 408, 425, 429}  # 400: the body changed on its way


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What the server says that it took of a parcel."""

    files: int
    unchanged: int  # of these, in already
    points: int
    series_analysed: int
    set_aside: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class RefusedError(Exception):
    """The server takes nothing of this parcel, ever."""

    def __init__(self, message: str, *, reasons: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.reasons = reasons or (message,)


class TooLargeError(Exception):
    """The parcel is larger than the server takes."""


class SettingsError(Exception):
    """Nothing can be sent until somebody changes something; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """Where to, and as whom."""

    server: str  # the dashboard's address, without a slash at its end
    project: str
    token: str

    @property
    def url(self) -> str:
        """The address that takes results."""
        return f"{self.server}/api/projects/{project_in_path(self.project)}/results"

    @property
    def is_in_the_clear(self) -> bool:
        """Whether others than this machine could read the token on its way."""
        parts = urlsplit(self.server)
        return parts.scheme == "http" and not is_loopback(parts.hostname or "")

    def send(self, body: bytes) -> Taken:
        """Sends a parcel. Raises UnavailableError, RefusedError, TooLargeError or SettingsError."""
        digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
        # RFC 9530: the server refuses a body that changed on its way
        answer = self._ask("POST", self.url, body, "application/zstd", {"Content-Digest": f"sha-256=:{digest}:"})
        told = _json(answer)
        if answer.status_code == 200:
            return self._taken(told, answer)
        raise self._error(answer, told)

    def state(self, limits: StatedLimits) -> None:
        """Tells the server by which limits to judge; it keeps the newest commit's. Raises as `send` does."""
        body = limits.model_dump_json(exclude_defaults=True).encode()
        url = f"{self.server}/api/projects/{project_in_path(self.project)}/limits"
        answer = self._ask("PUT", url, body, "application/json", {})
        if answer.status_code != 200:
            raise self._error(answer, _json(answer))

    def _ask(self, method: str, url: str, body: bytes, kind: str, more: Mapping[str, str]) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind, **more}
        try:
            return requests.request(
                method, url, data=body, headers=headers, timeout=(_CONNECT_S, _ANSWER_S), allow_redirects=False
            )
        except requests.exceptions.SSLError as error:
            raise SettingsError(
                f"{self.server}: its certificate is not trusted here ({_innermost(error)}); set "
                "REQUESTS_CA_BUNDLE to the file of your own authority"
            ) from error
        except requests.RequestException as error:
            raise UnavailableError(f"{self.server} does not answer: {_innermost(error)}") from error

    def _taken(self, told: Mapping[str, Any], answer: requests.Response) -> Taken:
        """A proxy's page of its own may have status 200 too: only the dashboard's own words count."""
        counts = {name: told.get(name) for name in _COUNTS}
        if told.get("project") != self.project or not all(isinstance(count, int) for count in counts.values()):
            raise SettingsError(
                f"{self.url} answers, but not as a dashboard does ({_start(answer)}); is --to its "
                "address, or does something stand before it that wants a login?"
            )
        return Taken(
            **{name: int(count) for name, count in counts.items() if count is not None},
            set_aside=tuple(map(str, told.get("set_aside", ()))),
            warnings=tuple(map(str, told.get("warnings", ()))),
        )

    def _error(self, answer: requests.Response, told: Mapping[str, Any]) -> Exception:
        status, said = answer.status_code, str(told.get("detail") or _start(answer))
        if status == 413:
            return TooLargeError(said)
        if status in {415, 422}:
            return RefusedError(said, reasons=tuple(map(str, told.get("set_aside", ()))))
        if status >= 500 or status in _AWAY:
            return UnavailableError(
                f"{self.server} cannot take it now ({status}): {said}", asked_wait_s(answer.headers)
            )
        if status == 401:
            return SettingsError(
                f"the token does not work (401): {said} An admin makes one on the page Tokens, or: "
                f"warpwatch token create --project {self.project} --name RUNNER"
            )
        if status == 403:
            return SettingsError(f"the token may not do that (403): {said} Wanted: one for uploads to {self.project}")
        if 300 <= status < 400:
            to = answer.headers.get("Location", "nowhere")
            return SettingsError(f"{self.url} sends on to {to}: a token follows no redirect; give that address to --to")
        return SettingsError(f"{self.url} answers {status}: {said} Is --to the dashboard's address?")


def check_server(server: str) -> str:
    """The address as it is used. Raises SettingsError for one that cannot be meant."""
    parts = urlsplit(server)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise SettingsError(f"the dashboard's address is {server!r}; wanted such as https://perf.example.org")
    if parts.username or parts.query or parts.fragment:
        raise SettingsError(f"the dashboard's address has more than host and path: {parts.scheme}://{parts.hostname}…")
    return server.rstrip("/")


def _json(answer: requests.Response) -> Mapping[str, Any]:
    try:
        told = answer.json()
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _start(answer: requests.Response) -> str:
    return " ".join(answer.text[:200].split()) or answer.reason or "no words"


def _innermost(error: BaseException) -> str:
    """urllib3 wraps what happened in several coats."""
    reason = error.args[0] if error.args else error
    reason = getattr(reason, "reason", reason)
    said = str(reason).rpartition(": ")[2]
    is_whole = said.count("(") == said.count(")")
    return (said if is_whole else said.strip("'\")")) or type(error).__name__
