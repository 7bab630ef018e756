"""Answers that the dashboard itself seldom gives, from a real HTTP server that gives them."""

import errno
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

import pytest

from tests.answering import answering
from tests.asv_results import AsvResults
from warpwatch.ci.push.batch import count_results, pack, split, unpack
from warpwatch.ci.push.queue import PushQueue
from warpwatch.ci.push.upload import PushResult, SettingsError, Upload, push

BENCH = "suite.Bench.track_latency"
_ROOM = 400_000
TAKEN = {
    "project": "demo",
    "files": 1,
    "unchanged": 0,
    "points": 1,
    "series_analysed": 1,
    "set_aside": [],
    "warnings": [],
}


class _ScriptedServer(ThreadingHTTPServer):
    """Gives the configured answers in order, the last one for ever."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, bytes, Mapping[str, str]]] = []
        self.digests: list[str] = []

    def will_answer(self, status: int, body: object = b"", **headers: str) -> None:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers.append((status, text, headers))


class _Handler(BaseHTTPRequestHandler):
    server: _ScriptedServer

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.digests.append(self.headers["Content-Digest"])
        status, body, headers = self.server.answers[0]
        if len(self.server.answers) > 1:
            del self.server.answers[0]
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[_ScriptedServer]:
    with answering(_ScriptedServer()) as is_reported:
        yield is_reported


@pytest.fixture
def measured(asv: AsvResults) -> AsvResults:
    asv.benchmark(BENCH)
    asv.commit(0, {BENCH: asv.row([1.0])})
    return asv


@pytest.fixture
def asv(tmp_path: Path) -> AsvResults:
    return AsvResults(tmp_path / "results")


def _push(
    server: _ScriptedServer, asv: AsvResults, spool: PushQueue, *, patience_s: float = 1000
) -> tuple[PushResult, list[str], list[float]]:
    """What came of it, what was said, and how long it waited each time; the clock stands but for that."""
    lines: list[str] = []
    slept: list[float] = []
    sent = PushResult()
    upload = Upload(server=f"http://127.0.0.1:{server.server_port}", project="demo", token="t")
    push(
        asv.folder,
        spool,
        upload,
        sent,
        patience_s=patience_s,
        say=lines.append,
        sleep=slept.append,
        clock=lambda: sum(slept),
    )
    return sent, lines, slept


@pytest.mark.parametrize("retry_after", ["31536000", "9" * 400, "Thu, 01 Jan 2099 00:00:00 GMT"])
def test_a_pause_of_years_is_limited_to_an_hour(
    retry_after: str, server: _ScriptedServer, measured: AsvResults, tmp_path: Path
) -> None:
    """Else a pusher that goes on would be silent until somebody restarts it."""
    server.will_answer(503, {"detail": "Gone fishing."}, Retry_After=retry_after)
    server.will_answer(200, TAKEN)
    sent, _, slept = _push(server, measured, PushQueue(tmp_path / "spool"), patience_s=10_000)
    assert (len(sent.accepted), slept) == (1, [3600.0])


def test_a_busy_or_broken_server_is_retried_with_the_same_body(
    server: _ScriptedServer, measured: AsvResults, tmp_path: Path
) -> None:
    server.will_answer(503, {"detail": "The store did not answer."})
    server.will_answer(502, b"<html>bad gateway</html>")
    server.will_answer(429, {"detail": "Too many."}, Retry_After="77")
    server.will_answer(400, {"detail": "Changed on its way."})
    server.will_answer(200, TAKEN)
    sent, lines, slept = _push(server, measured, PushQueue(tmp_path / "spool"))
    assert (sent.files, sent.points, sent.waiting) == (1, 1, 0)
    assert len(slept) == 4
    assert slept[2] >= 77
    assert len(set(server.digests)) == 1
    assert any("(503): The store did not answer" in line for line in lines)
    assert any("(502): <html>bad gateway" in line for line in lines)


def test_patience_ends_and_the_parcel_waits(server: _ScriptedServer, measured: AsvResults, tmp_path: Path) -> None:
    server.will_answer(500)
    spool = PushQueue(tmp_path / "spool")
    sent, lines, slept = _push(server, measured, spool, patience_s=60)
    assert sum(slept) <= 60
    assert len(slept) >= 3
    assert (sent.files, sent.waiting, len(spool.waiting())) == (0, 1, 1)
    assert lines[-1].endswith("giving up for now")


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (200, b"<html>Please log in</html>", "not as a dashboard (<html>Please log in</html>)"),
        (200, {**TAKEN, "project": "other"}, "not as a dashboard"),
        (302, b"", "redirects to https://login.example"),
        (404, b"not found", "answers 404: not found Is --to the dashboard's address?"),
    ],
)
def test_another_server_is_refused(
    status: int, body: object, message: str, server: _ScriptedServer, measured: AsvResults, tmp_path: Path
) -> None:
    server.will_answer(status, body, Location="https://login.example")
    spool = PushQueue(tmp_path / "spool")
    with pytest.raises(SettingsError) as error:
        _push(server, measured, spool)
    assert message in str(error.value)
    assert len(spool.waiting()) == 1


def test_a_full_disk_is_reported_and_sent_batches_free_space(
    server: _ScriptedServer, asv: AsvResults, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_ROOM}", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk wants a right to mount")
    try:
        spool = PushQueue(disk / "spool")
        asv.benchmark(BENCH)
        server.will_answer(500)
        waiting, refused = 0, []
        for number in range(4):  # noise, that no compression makes smaller
            noise = Random(number).randbytes(100_000).hex()
            asv.commit(number, {BENCH: asv.row([1.0], [[noise]])})
            try:
                waiting = _push(server, asv, spool, patience_s=0)[0].waiting
            except OSError as error:
                refused.append(error.errno)
        assert 1 <= waiting < 4
        assert set(refused) == {errno.ENOSPC}
        server.answers.clear()
        server.will_answer(200, TAKEN)
        sent, _, _ = _push(server, asv, spool)
        assert (len(server.answers), sent.waiting) == (1, 0)
        assert set(spool.known()) == {path.relative_to(asv.folder).as_posix() for path in asv.folder.glob("*/0*.json")}
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_equal_content_makes_equal_batches_and_halves_hold_everything_once() -> None:
    members = [("benchmarks.json", b"{}"), ("box/machine.json", b"{}"), ("other/machine.json", b"{}")]
    files = [(f"{box}/{n}-env.json", b"x" * n) for box in ("box", "other") for n in range(3)]
    contexts = [(name.replace(".json", ".context.jsonl"), b"c") for name, _ in files[:4]]
    body = pack([*members, *files, *contexts])
    assert body == pack(reversed([*members, *files, *contexts]))
    assert count_results(body) == 6
    parts = split(body)
    assert parts is not None
    together = [member for part in parts for member in unpack(part)]
    assert sorted(set(together)) == sorted(unpack(body))
    assert len([name for name, _ in together if name not in dict(members)]) == 10
    assert split(pack([*members, files[0]])) is None


def test_an_unencrypted_connection_is_reported() -> None:
    for server, is_reported in (
        ("http://perf.example.org", True),
        ("https://perf.example.org", False),
        ("http://127.0.0.1:8321", False),
        ("http://localhost", False),
    ):
        assert Upload(server=server, project="demo", token="t").is_unencrypted is is_reported
