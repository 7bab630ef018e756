"""A runner's registration for one job, against a local server that answers as GitHub's documentation says."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.answering import answering
from warpwatch.ci.runner.register import AwayError, just_in_time, patiently, register


class _GitHub(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: tuple[int, object] = (201, {"runner": {"id": 23}, "encoded_jit_config": "abc123=="})
        self.asked: list[tuple[str, dict[str, str], dict[str, object]]] = []


class _Handler(BaseHTTPRequestHandler):
    server: _GitHub

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, dict(self.headers), body))
        status, told = self.server.answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(told).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def github() -> Iterator[_GitHub]:
    with answering(_GitHub()) as server:
        yield server


def _words(github: _GitHub, tmp_path: Path) -> list[str]:
    (tmp_path / "token").write_text("github_secret\n")
    return ["--repository", "o/r", "--label", "gpu-t4", "--token-file", str(tmp_path / "token"), "--output",
            str(tmp_path / "job.env"), "--api", f"http://127.0.0.1:{github.server_port}", "--name", "box"]  # fmt: skip


def test_the_configuration_is_written_for_its_owner_alone(github: _GitHub, tmp_path: Path) -> None:
    done = CliRunner().invoke(register, _words(github, tmp_path))
    assert done.exit_code == 0, done.output
    written = tmp_path / "job.env"
    assert written.read_text() == "ACTIONS_RUNNER_INPUT_JITCONFIG=abc123==\n"
    assert written.stat().st_mode & 0o777 == 0o600
    ((path, headers, body),) = github.asked
    assert path == "/repos/o/r/actions/runners/generate-jitconfig"
    assert headers["Authorization"] == "Bearer github_secret"
    assert body == {"name": "box", "runner_group_id": 1, "labels": ["self-hosted", "gpu-t4"], "work_folder": "_work"}


def test_an_organizations_runner_joins_the_group_that_only_some_workflows_may_use(
    github: _GitHub, tmp_path: Path
) -> None:
    words = [*_words(github, tmp_path), "--repository", "kernels-org", "--group", "5"]
    done = CliRunner().invoke(register, words)
    assert done.exit_code == 0, done.output
    ((path, _, body),) = github.asked
    assert (path, body["runner_group_id"]) == ("/orgs/kernels-org/actions/runners/generate-jitconfig", 5)
    github.answer = (403, {"message": "no"})
    assert "Self-hosted runners: write for kernels-org" in CliRunner().invoke(register, words).output


@pytest.mark.parametrize(
    ("status", "told", "said"),
    [
        (404, {"message": "Not Found"}, "wants the permission Administration: write for o/r"),
        (409, {"message": "Already exists"}, "GitHub answers 409: Already exists"),
        (201, {"encoded_jit_config": "two\nlines"}, "no configuration in it"),
    ],
)
def test_what_github_refuses_is_told_and_nothing_is_written(
    status: int, told: object, said: str, github: _GitHub, tmp_path: Path
) -> None:
    github.answer = (status, told)
    done = CliRunner().invoke(register, _words(github, tmp_path))
    assert done.exit_code == 1
    assert said in done.output
    assert "github_secret" not in done.output
    assert not (tmp_path / "job.env").exists()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_github_that_is_away_is_asked_again_until_it_answers(status: int, github: _GitHub) -> None:
    """The service that takes jobs waits for this one, and systemd starts it no more once this one has failed."""
    answers = [(status, {"message": "later"})] * 7 + [(201, {"encoded_jit_config": "abc123=="})]
    waited: list[float] = []
    said: list[str] = []

    def ask() -> str:
        github.answer = answers.pop(0)
        url = f"http://127.0.0.1:{github.server_port}"
        return just_in_time(url, "o/r", "github_secret", name="box", labels=("gpu-t4",), group=1)

    assert patiently(ask, said.append, sleep=waited.append) == "abc123=="
    assert waited == [15, 30, 60, 120, 240, 300, 300]
    assert said[0] == f"GitHub answers {status}: later; again in 15 s"


def test_a_github_that_nobody_reaches_is_away() -> None:
    with pytest.raises(AwayError, match="does not answer"):
        just_in_time("http://127.0.0.1:9", "o/r", "github_secret", name="box", labels=("gpu-t4",), group=1)
