"""Requests to a dashboard, and its answers as results or errors."""

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

from ..retries import UnavailableError, requested_wait_s

_CONNECT_S, _ANSWER_S = 10, 900  # the server analyses many new series before it answers
_COUNTS = ("files", "unchanged", "points", "series_analysed")
_RETRIABLE = {400, 408, 425, 429}  # 400: the body changed in transit


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadResult:
    """The server's counts for a batch."""

    files: int
    unchanged: int  # files stored before
    points: int
    series_analysed: int
    set_aside: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class RefusedError(Exception):
    """The server will never accept this batch."""

    def __init__(self, message: str, *, reasons: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.reasons = reasons or (message,)


class UploadTooLargeError(Exception):
    """The batch is larger than the server accepts."""


class SettingsError(Exception):
    """A setting is wrong, and nothing can be sent until it is changed; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """Server, project and token."""

    server: str  # the dashboard's address without a trailing slash
    project: str
    token: str

    @property
    def url(self) -> str:
        """The address for results."""
        return f"{self.server}/api/projects/{project_in_path(self.project)}/results"

    @property
    def is_unencrypted(self) -> bool:
        """Whether the token is sent without encryption to another machine."""
        parts = urlsplit(self.server)
        return parts.scheme == "http" and not is_loopback(parts.hostname or "")

    def send(self, body: bytes) -> UploadResult:
        """Sends a batch. Raises UnavailableError, RefusedError, UploadTooLargeError or SettingsError."""
        digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
        # RFC 9530: the server refuses a body that changed in transit
        answer = self._request("POST", self.url, body, "application/zstd", {"Content-Digest": f"sha-256=:{digest}:"})
        fields = _json(answer)
        if answer.status_code == 200:
            return self._upload_result(fields, answer)
        raise self._error(answer, fields)

    def state(self, limits: StatedLimits) -> None:
        """Sends the project's thresholds; the server keeps those of the newest commit. Raises as `send` does."""
        body = limits.model_dump_json(exclude_defaults=True).encode()
        url = f"{self.server}/api/projects/{project_in_path(self.project)}/limits"
        answer = self._request("PUT", url, body, "application/json", {})
        if answer.status_code != 200:
            raise self._error(answer, _json(answer))

    def _request(self, method: str, url: str, body: bytes, kind: str, more: Mapping[str, str]) -> requests.Response:
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

    def _upload_result(self, fields: Mapping[str, Any], answer: requests.Response) -> UploadResult:
        """The server's counts. Raises SettingsError if they are missing: a proxy's page may have status 200 too."""
        counts = {name: fields.get(name) for name in _COUNTS}
        if fields.get("project") != self.project or not all(isinstance(count, int) for count in counts.values()):
            raise SettingsError(
                f"{self.url} answers, but not as a dashboard ({_start(answer)}); is --to its "
                "address, or does a proxy in front of it require a login?"
            )
        return UploadResult(
            **{name: int(count) for name, count in counts.items() if count is not None},
            set_aside=tuple(map(str, fields.get("set_aside", ()))),
            warnings=tuple(map(str, fields.get("warnings", ()))),
        )

    def _error(self, answer: requests.Response, fields: Mapping[str, Any]) -> Exception:
        status, text = answer.status_code, str(fields.get("detail") or _start(answer))
        if status == 413:
            return UploadTooLargeError(text)
        if status in {415, 422}:
            return RefusedError(text, reasons=tuple(map(str, fields.get("set_aside", ()))))
        if status >= 500 or status in _RETRIABLE:
            return UnavailableError(
                f"{self.server} cannot accept results now ({status}): {text}", requested_wait_s(answer.headers)
            )
        if status == 401:
            return SettingsError(
                f"the token is not valid (401): {text} An admin creates one on the page Tokens, or: "
                f"warpwatch token create --project {self.project} --name RUNNER"
            )
        if status == 403:
            return SettingsError(
                f"the token has no permission (403): {text} It needs one for uploads to {self.project}"
            )
        if 300 <= status < 400:
            to = answer.headers.get("Location", "nowhere")
            return SettingsError(
                f"{self.url} redirects to {to}, which would expose the token; give that address to --to"
            )
        return SettingsError(f"{self.url} answers {status}: {text} Is --to the dashboard's address?")


def check_server(server: str) -> str:
    """The normalized address. Raises SettingsError for an invalid one."""
    parts = urlsplit(server)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise SettingsError(f"the dashboard's address is {server!r}; expected such as https://perf.example.org")
    if parts.username or parts.query or parts.fragment:
        raise SettingsError(f"the dashboard's address has more than host and path: {parts.scheme}://{parts.hostname}…")
    return server.rstrip("/")


def _json(answer: requests.Response) -> Mapping[str, Any]:
    try:
        fields = answer.json()
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _start(answer: requests.Response) -> str:
    return " ".join(answer.text[:200].split()) or answer.reason or "empty"


def _innermost(error: BaseException) -> str:
    """The innermost cause of urllib3's nested errors."""
    reason = error.args[0] if error.args else error
    reason = getattr(reason, "reason", reason)
    text = str(reason).rpartition(": ")[2]
    is_whole = text.count("(") == text.count(")")
    return (text if is_whole else text.strip("'\")")) or type(error).__name__
