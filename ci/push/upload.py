"""Queues new results and sends the queue to a dashboard; its answers as results or errors."""

import base64
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from warpwatch.dashboard.model.thresholds import StatedLimits
from warpwatch.dashboard.settings import is_loopback
from warpwatch.dashboard.web.urls import project_in_path

from ..retries import Backoff, UnavailableError, json_object, requested_wait_s, retry
from .batch import (
    LoadedResult,
    archived_runs,
    count_results,
    find_results,
    group_results,
    listing_files,
    load_result,
    pack,
    split,
)
from .queue import Batch, KnownFile, PushQueue

_CONNECT_S, _ANSWER_S = 10, 900  # the server analyses many new series before it answers
_COUNTS = ("files", "unchanged", "points")
_RETRIABLE = {400, 408, 425, 429}  # 400: the body changed in transit


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadResult:
    """The server's counts for a batch."""

    files: int
    unchanged: int  # files stored before
    points: int
    set_aside: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class UploadRefusedError(Exception):
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
        """Sends a batch. Raises UnavailableError, UploadRefusedError, UploadTooLargeError or SettingsError."""
        digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
        # RFC 9530: the server refuses a body that changed in transit
        answer = self._request("POST", self.url, body, "application/zstd", {"Content-Digest": f"sha-256=:{digest}:"})
        fields = json_object(answer)
        if answer.status_code == 200:
            return self._upload_result(fields, answer)
        raise self._error(answer, fields)

    def state(self, limits: StatedLimits) -> None:
        """Sends the project's thresholds; the server keeps those of the newest commit. Raises as `send` does."""
        body = limits.model_dump_json(exclude_defaults=True).encode()
        url = f"{self.server}/api/projects/{project_in_path(self.project)}/limits"
        answer = self._request("PUT", url, body, "application/json", {})
        if answer.status_code != 200:
            raise self._error(answer, json_object(answer))

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
            return UploadRefusedError(text, reasons=tuple(map(str, fields.get("set_aside", ()))))
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


def _start(answer: requests.Response) -> str:
    return " ".join(answer.text[:200].split()) or answer.reason or "empty"


def _innermost(error: BaseException) -> str:
    """The innermost cause of urllib3's nested errors."""
    reason = error.args[0] if error.args else error
    reason = getattr(reason, "reason", reason)
    text = str(reason).rpartition(": ")[2]
    is_whole = text.count("(") == text.count(")")
    return (text if is_whole else text.strip("'\")")) or type(error).__name__


_BACKOFF = Backoff(first_s=1.0, longest_s=300.0, longest_requested_s=3600.0)


@dataclass(slots=True, kw_only=True)
class PushResult:
    """What the server accepted."""

    accepted: list[UploadResult] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)  # reasons of rejected files
    waiting: int = 0  # batches still queued

    @property
    def files(self) -> int:
        """Number of result files that the server has."""
        return sum(each.files for each in self.accepted)

    @property
    def unchanged(self) -> int:
        """Number of files that the server had before."""
        return sum(each.unchanged for each in self.accepted)

    @property
    def points(self) -> int:
        """Number of values that were new to the server."""
        return sum(each.points for each in self.accepted)


def queue_new(results: Path, queue: PushQueue, *, again: bool = False) -> int:
    """Queues archived runs, and result files that are new or changed since they were last queued; returns how many.

    With `again` queues all files and the refused batches. Raises OSError if results or queue cannot be read or written;
    the queue loses nothing.
    """
    with queue.queueing():
        if again:
            queue.requeue_refused()
        before = {} if again else queue.known()
        known, count = dict(before), 0
        for archive in archived_runs(results):  # first: the result files have the newest runs
            if archive.name not in known:
                queue.add(archive.path.read_bytes())
                known[archive.name] = KnownFile(stamp=archive.stamp, digest="")
                queue.save_known(known)
                count += 1
        for group in group_results(_changed(results, known)):
            machines = {str(Path(each.result.name).parent) for each in group}
            members = [member for each in group for member in each.members]
            queue.add(pack([*members, *listing_files(results, machines)]))
            for each in group:
                known[each.result.name] = KnownFile(stamp=each.result.stamp, digest=each.digest)
            queue.save_known(known)
            count += len(group)
        if not count and known != before:
            queue.save_known(known)
        return count


def _changed(results: Path, known: dict[str, KnownFile]) -> Iterator[LoadedResult]:
    """Files with other content than `known`; for equal content the new stamp is recorded in it."""
    for result in find_results(results):
        last = known.get(result.name)
        if last is not None and last.stamp == result.stamp:
            continue
        loaded = load_result(result)
        if loaded is None:
            continue
        if last is not None and last.digest == loaded.digest:
            known[result.name] = KnownFile(stamp=result.stamp, digest=loaded.digest)
        else:
            yield loaded


def _send_one(queue: PushQueue, batch: Batch, upload: Upload, sent: PushResult, say: Callable[[str], None]) -> None:
    body = batch.body()
    try:
        accepted = upload.send(body)
    except UploadTooLargeError as error:
        parts = split(body)
        if parts is None:
            _quarantine(queue, batch, (f"too large for the server: {error}",), sent)
            return
        say(f"{count_results(body)} files at once are too large for the server: {error} Sending them in two halves")
        queue.replace(batch, parts)
    except UploadRefusedError as error:
        _quarantine(queue, batch, error.reasons, sent)
    else:
        sent.accepted.append(accepted)
        if accepted.set_aside:
            _quarantine(queue, batch, accepted.set_aside, sent)
        else:
            queue.remove(batch)


def _quarantine(queue: PushQueue, batch: Batch, reasons: tuple[str, ...], sent: PushResult) -> None:
    sent.set_aside += reasons
    queue.quarantine(batch, reasons)


def push(
    results: Path,
    queue: PushQueue,
    upload: Upload,
    sent: PushResult,
    *,
    patience_s: float,
    again: bool = False,
    say: Callable[[str], None] = lambda line: None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Queues new results and sends the queue, retrying for `patience_s` while the server is away. Fills `sent`.

    Waits for another push of this queue. Raises SettingsError, and OSError if results or queue cannot be read or
    written.
    """
    deadline = clock() + patience_s

    def send() -> None:
        with queue.sending(waits=False) as is_ours:
            if is_ours:
                return _send_patiently(queue, upload, sent, deadline, say, sleep, clock)
        say("another push sends from this queue; waiting for it")
        with queue.sending(waits=True):
            return _send_patiently(queue, upload, sent, deadline, say, sleep, clock)

    try:
        queue_error = _queue(results, queue, again, say)
        send()
        if queue_error is not None:  # sent batches may have freed space
            if (queue_error := _queue(results, queue, again, say)) is not None:
                raise queue_error
            send()
    finally:
        sent.waiting = len(queue.waiting())


def _queue(results: Path, queue: PushQueue, again: bool, say: Callable[[str], None]) -> OSError | None:
    """The error if new results cannot be queued; None on success."""
    try:
        count = queue_new(results, queue, again=again)
    except OSError as error:
        return error
    if count:
        say(f"{count} result file{'s' if count > 1 else ''} queued")
    return None


def _send_patiently(
    queue: PushQueue,
    upload: Upload,
    sent: PushResult,
    deadline: float,
    say: Callable[[str], None],
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> None:
    """Sends the waiting batches in order. The back-off restarts with each batch."""
    while waiting := queue.waiting():
        send = partial(_send_one, queue, waiting[0], upload, sent, say)
        try:
            retry(send, _BACKOFF, total_s=deadline - clock(), say=say, sleep=sleep, clock=clock)
        except UnavailableError as error:
            return say(f"{error}; giving up for now")


def watch(
    results: Path,
    queue: PushQueue,
    upload: Upload,
    *,
    every_s: float,
    say: Callable[[str], None],
    report: Callable[[PushResult], None],
    is_running: Callable[[], bool] = lambda: True,
) -> None:
    """Queues and sends results as they appear, also while the server is away, until `is_running` is false.

    `report` gets the result of each round. Raises SettingsError.
    """
    failures, next_try, last_error = 0, 0.0, ""
    while is_running():
        queue_error = _queue(results, queue, False, say) if results.is_dir() else None
        if queue_error is not None and str(queue_error) != last_error:
            say(f"cannot queue new results: {queue_error}; trying again every {every_s:.0f} s")
        last_error = str(queue_error or "")
        if time.monotonic() >= next_try and queue.waiting():
            sent = PushResult()
            with queue.sending(waits=False) as is_ours:
                try:
                    while is_ours and (waiting := queue.waiting()):
                        _send_one(queue, waiting[0], upload, sent, say)
                        failures = 0
                except UnavailableError as error:
                    failures += 1
                    pause = _BACKOFF.pause_s(failures, error)
                    next_try = time.monotonic() + pause
                    say(f"{error}; {len(queue.waiting())} waiting; again in {math.ceil(pause)} s")
            if sent.accepted or sent.set_aside:
                report(sent)
        time.sleep(every_s)
