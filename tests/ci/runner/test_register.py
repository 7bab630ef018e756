"""Registration of a runner for one job, with a local server that answers as GitHub documents."""

import itertools
import json
import re
import socket
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.answering import answering
from warpwatch.ci.retries import UnavailableError, retry
from warpwatch.ci.runner.register_command import _BACKOFF, just_in_time, register, runner_names

_MADE = (201, {"runner": {"id": 23}, "encoded_jit_config": "abc123=="})


class _GitHub(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: tuple[int, object] = _MADE
        self.headers: dict[str, str] = {}
        self.requests: list[tuple[str, dict[str, str], dict[str, object]]] = []


class _Handler(BaseHTTPRequestHandler):
    server: _GitHub

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, dict(self.headers), body))
        status, content = self.server.answer
        self.send_response(status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content if isinstance(content, bytes) else json.dumps(content).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def github() -> Iterator[_GitHub]:
    with answering(_GitHub()) as server:
        yield server


def _url(github: _GitHub) -> str:
    return f"http://127.0.0.1:{github.server_port}"


def _words(github: _GitHub, tmp_path: Path) -> list[str]:
    (tmp_path / "token").write_text("github_secret\n")
    return [
        "--repository",
        "o/r",
        "--label",
        "gpu-t4",
        "--token-file",
        str(tmp_path / "token"),
        "--output",
        str(tmp_path / "job.env"),
        "--api",
        _url(github),
        "--name",
        "box",
    ]


def test_the_configuration_is_readable_only_by_its_owner(github: _GitHub, tmp_path: Path) -> None:
    done = CliRunner().invoke(register, _words(github, tmp_path))
    assert done.exit_code == 0, done.output
    written = tmp_path / "job.env"
    assert written.read_text() == "ACTIONS_RUNNER_INPUT_JITCONFIG=abc123==\n"
    assert written.stat().st_mode & 0o777 == 0o600
    ((path, headers, body),) = github.requests
    assert path == "/repos/o/r/actions/runners/generate-jitconfig"
    assert headers["Authorization"] == "Bearer github_secret"
    assert body == {"name": "box", "runner_group_id": 1, "labels": ["self-hosted", "gpu-t4"], "work_folder": "_work"}


def test_a_runner_of_an_organization_joins_its_group(github: _GitHub, tmp_path: Path) -> None:
    words = [*_words(github, tmp_path), "--repository", "kernels-org", "--group", "5"]
    done = CliRunner().invoke(register, words)
    assert done.exit_code == 0, done.output
    ((path, _, body),) = github.requests
    assert (path, body["runner_group_id"]) == ("/orgs/kernels-org/actions/runners/generate-jitconfig", 5)
    github.answer = (403, {"message": "no"})
    assert "Self-hosted runners: write for kernels-org" in CliRunner().invoke(register, words).output


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (404, {"message": "Not Found"}, "needs the permission Administration: write for o/r"),
        (409, {"message": "Already exists"}, "GitHub answers 409: Already exists"),
        (201, {"encoded_jit_config": "two\nlines"}, "without a configuration"),
    ],
)
def test_a_refusal_of_github_is_reported_and_nothing_is_written(
    status: int, content: object, message: str, github: _GitHub, tmp_path: Path
) -> None:
    github.answer = (status, content)
    done = CliRunner().invoke(register, _words(github, tmp_path))
    assert done.exit_code == 1
    assert message in done.output
    assert "github_secret" not in done.output
    assert not (tmp_path / "job.env").exists()


INCIDENTS: list[tuple[int, object, dict[str, str]]] = [
    (429, {"message": "later"}, {}),
    (500, {"message": "later"}, {}),
    (502, b"<html>Bad Gateway</html>", {}),
    (503, b"", {}),
    (200, ["not", "an", "object"], {}),
    (201, {"runner": {"id": 23}}, {}),
    (401, {"message": "Bad credentials"}, {}),
    (404, {"message": "Not Found"}, {}),
    (403, {"message": "Resource not accessible"}, {}),
    (403, {"message": "API rate limit exceeded for user ID 1."}, {"x-ratelimit-remaining": "0"}),
    (403, {"message": "You have exceeded a secondary rate limit."}, {"x-ratelimit-remaining": "59"}),
    (409, {"message": "Already exists"}, {}),
    (422, {"message": "Validation Failed"}, {}),
]


@pytest.mark.parametrize(("status", "content", "headers"), INCIDENTS)
def test_no_answer_of_github_ends_the_wait(
    status: int, content: object, headers: dict[str, str], github: _GitHub
) -> None:
    """systemd does not restart the job service, which requires the registration, after a failed registration."""
    github.headers = headers
    answers = [(status, content)] * 9 + [_MADE]
    waited: list[float] = []

    def request() -> str:
        github.answer = answers.pop(0)
        return just_in_time(_url(github), "o/r", "github_secret", name="box", labels=("gpu-t4",), group=1)

    assert retry(request, _BACKOFF, sleep=waited.append) == "abc123=="
    assert len(waited) == 9
    assert waited[0] >= 15
    assert 300 <= waited[-1] <= 450


@pytest.mark.parametrize(
    ("headers", "message", "wait"),
    [
        ({}, "later", 15),
        ({"Retry-After": "45"}, "later", 45),
        ({"Retry-After": "3600"}, "later", 300),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "99999999999"}, "API rate limit exceeded", 300),
        ({"X-RateLimit-Remaining": "12"}, "You have exceeded a secondary rate limit", 60),
    ],
)
def test_the_pause_is_the_requested_one_up_to_five_minutes(
    headers: dict[str, str], message: str, wait: float, github: _GitHub
) -> None:
    github.headers = headers
    answers: list[tuple[int, object]] = [(403, {"message": message}), _MADE]
    waited: list[float] = []
    lines: list[str] = []

    def request() -> str:
        github.answer = answers.pop(0)
        return just_in_time(_url(github), "o/r", "github_secret", name="box", labels=("gpu-t4",), group=1)

    retry(request, _BACKOFF, say=lines.append, sleep=waited.append)
    assert len(waited) == 1
    assert wait <= waited[0] <= 1.5 * wait
    assert ("Administration" in lines[0]) == (
        message == "later" and not headers
    )  # a rate limit is no missing permission


@pytest.mark.parametrize(
    "api",
    ["http://127.0.0.1:9", "http://no-such-host.invalid"],
    ids=["no server listens", "no such name in the DNS"],
)
def test_an_unreachable_github_is_unavailable(api: str) -> None:
    with pytest.raises(UnavailableError, match="does not answer"):
        just_in_time(api, "o/r", "github_secret", name="box", labels=("gpu-t4",), group=1)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--api", "api.github.com", "expected an address such as https://api.github.com"),
        ("--api", "ftp://api.github.com", "expected an address such as https://api.github.com"),
        ("--api", "https://", "expected an address such as https://api.github.com"),
        ("--repository", "https://github.com/o/r", "expected OWNER/NAME"),
        ("--name", "x" * 65, "has 65 characters"),
        ("token", "two\nlines", "has no token"),
        ("token", "", "has no token"),
        ("token", "ключ", "has no token"),
    ],
)
def test_an_invalid_setting_ends_the_wait_and_is_named(
    option: str, value: str, message: str, github: _GitHub, tmp_path: Path
) -> None:
    words = [*_words(github, tmp_path), "--wait", *([option, value] if option != "token" else [])]
    if option == "token":
        (tmp_path / "token").write_text(value)
    done = CliRunner().invoke(register, words)
    assert done.exit_code == 1
    assert message in done.output
    assert "two" not in done.output
    assert github.requests == []


@pytest.mark.parametrize("given", [None, "a-runner", "r" * 64])
def test_names_are_short_and_distinct(given: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "h" * 63)
    names = list(itertools.islice(runner_names(given), 20))
    assert len(set(names)) == 20
    assert all(0 < len(name) <= 64 for name in names)
    assert given is None or names[0] == given


def test_a_taken_name_is_replaced(github: _GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def free_the_name(_seconds: float) -> None:
        github.answer = _MADE

    monkeypatch.setattr("warpwatch.ci.runner.register_command.retry", partial(retry, sleep=free_the_name))
    github.answer = (422, {"message": "Already exists - A runner with the name *** already exists"})
    done = CliRunner().invoke(register, [*_words(github, tmp_path), "--wait"])
    assert done.exit_code == 0, done.output
    first, second = (body["name"] for _, _, body in github.requests)
    assert first == "box"
    assert re.fullmatch(r"box-[0-9a-f]{8}", str(second))


def test_an_existing_output_file_is_replaced_not_written_into(github: _GitHub, tmp_path: Path) -> None:
    written = tmp_path / "job.env"
    written.write_text("before")
    written.chmod(0o644)
    with written.open() as reader:
        done = CliRunner().invoke(register, _words(github, tmp_path))
        assert done.exit_code == 0, done.output
        assert reader.read() == "before"
    assert written.stat().st_mode & 0o777 == 0o600
    assert written.read_text() == "ACTIONS_RUNNER_INPUT_JITCONFIG=abc123==\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.env", "token"]


def test_an_output_that_cannot_be_written_is_named(github: _GitHub, tmp_path: Path) -> None:
    done = CliRunner().invoke(register, [*_words(github, tmp_path), "--output", str(tmp_path / "no/such/job.env")])
    assert done.exit_code == 1
    assert "no/such" in done.output
    assert "Traceback" not in done.output
