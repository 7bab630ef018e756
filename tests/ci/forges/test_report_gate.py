"""`warpwatch forge report-gate` as a job runs it: exit statuses, several targets, and a sender that is killed."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.ci.forges.conftest import Forge
from tests.ci.forges.forge_server import Failure, ForgeRequest
from tests.ci.forges.servers import GitHubServer
from tests.ci.reports.examples import BASE, FULL, HEAD, QUIET, artefact, row
from warpwatch.ci.gate.artefact_builder import write_artefact
from warpwatch.ci.reports.report_gate_command import report_gate
from warpwatch.dashboard.model.verdict import Verdict


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An artefact of a regression, and of rows of every other kind except those that cannot be accepted."""
    rows = tuple(row for row in FULL.rows if row.verdict is not Verdict.INVALID)
    write_artefact(FULL.model_copy(update={"rows": rows}), tmp_path / "gate.json")
    return tmp_path / "gate.json"


def _run(forge: Forge, *words: object, environment: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(report_gate, [str(word) for word in words], env=environment or forge.environment)


def _target(forge: Forge) -> str:
    return "github" if isinstance(forge.server, GitHubServer) else "gitlab"


def test_a_report_is_written_once_and_an_old_one_never(forge: Forge, file: Path) -> None:
    words = (file, "--to", _target(forge), "--pull-request", 7, "--dashboard", "https://perf.example.org")
    first, second = _run(forge, *words), _run(forge, *words)
    assert (first.exit_code, second.exit_code) == (0, 0), first.output + second.output
    assert "comment created" in first.output
    assert "comment unchanged" in second.output
    (text,) = forge.talk.mine()
    assert "### warpwatch: regressed" in text
    if isinstance(forge.server, GitHubServer):
        assert len(forge.server.runs) == 1
    forge.talk.head = "c" * 40
    assert _run(forge, *words).exit_code == 3
    assert forge.talk.mine() == [text]


def test_a_killed_sender_leaves_no_duplicate(forge: Forge, file: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "warpwatch.ci.cli",
        "forge",
        "report-gate",
        str(file),
        "--to",
        _target(forge),
        "--pull-request",
        "7",
    ]
    sender = subprocess.Popen(words, env=os.environ | forge.environment, stderr=subprocess.PIPE)

    def kill(request: ForgeRequest) -> None:
        if request.operation.startswith(forge.post):
            sender.kill()
            sender.wait()

    forge.server.before = kill
    forge.server.failures.append(Failure(operation=forge.post, status=None, done=True))
    sender.communicate(timeout=60)
    assert sender.returncode == -9
    assert len(forge.talk.mine()) == 1
    forge.server.before = lambda request: None
    again = _run(forge, file, "--to", _target(forge), "--pull-request", 7)
    assert again.exit_code == 0, again.output
    assert len(forge.talk.mine()) == 1
    if isinstance(forge.server, GitHubServer):
        assert len(forge.server.runs) == 1


def test_replies_change_the_reported_verdict(forge: Forge, file: Path) -> None:
    words = (file, "--to", _target(forge), "--pull-request", 7, "--replies")
    forge.talk.writers = frozenset({"ann"})
    assert _run(forge, *words).exit_code == 0
    assert _run(forge, *words, "--fail-if-blocking").exit_code == 4
    later = datetime.now(UTC) + timedelta(hours=1)
    forge.talk.comment("ann", "/warpwatch accept rope twice as exact", later)
    forge.talk.comment("bob", "/warpwatch accept * please", later)
    done = _run(forge, *words, "--fail-if-blocking")
    assert done.exit_code == 0, done.output
    assert "reply ignored: bob" in done.output
    (text,) = forge.talk.mine()
    assert "accepted by `ann`" in text
    assert "blocks merging" not in text


@pytest.mark.parametrize("broken", [Verdict.INVALID, Verdict.MISSING])
def test_a_failure_at_head_fails_with_fail_if_blocking(forge: Forge, broken: Verdict, tmp_path: Path) -> None:
    write_artefact(artefact(row(1, broken), row(2, Verdict.UNCHANGED)), tmp_path / "gate.json")
    words = (tmp_path / "gate.json", "--to", _target(forge), "--pull-request", 7, "--fail-if-blocking")
    assert _run(forge, *words).exit_code == 4
    (text,) = forge.talk.mine()
    assert "warpwatch: fails at head" in text
    assert "1 benchmark fails at head: `benchmarks.rope.Rope.track_latency(cuda-fp16-b1, warpwatch)`" in text
    assert "This blocks merging" in text
    assert ("/warpwatch accept" in text) is (broken is Verdict.MISSING)


def test_a_check_run_needs_no_pull_request_but_the_commit_that_was_to_be_measured(github: Forge, file: Path) -> None:
    assert isinstance(github.server, GitHubServer)
    assert _run(github, file, "--to", "github-check").exit_code == 2
    assert _run(github, file, "--to", "github-check", "--head", HEAD).exit_code == 0
    assert [run["head_sha"] for run in github.server.runs.values()] == [HEAD]


def test_an_artefact_of_another_commit_is_refused(github: Forge, file: Path) -> None:
    """A fork's job may write any hash into its file, of a commit that is to look good, say."""
    refused = _run(github, file, "--to", "github", "--pull-request", 7, "--head", "c" * 40)
    assert refused.exit_code == 2
    assert f"not of {'c' * 40}" in refused.output
    github.talk.head = "c" * 40
    assert _run(github, file, "--to", "github-check", "--pull-request", 7).exit_code == 3
    assert isinstance(github.server, GitHubServer)
    assert github.server.runs == {}


def test_texts_need_no_forge(tmp_path: Path, file: Path) -> None:
    write_artefact(QUIET, tmp_path / "quiet.json")
    summary = tmp_path / "summary.md"
    environment = {"GITHUB_STEP_SUMMARY": str(summary)}
    runner = CliRunner()
    done = runner.invoke(report_gate, [str(file), str(tmp_path / "quiet.json"), "--to", "summary"], env=environment)
    assert (done.exit_code, done.output) == (0, "")
    assert summary.read_text().startswith("### warpwatch: regressed")
    out = tmp_path / "comment"
    assert runner.invoke(report_gate, [str(file), "--to", "comment", "--output", str(out)]).exit_code == 0
    assert out.read_text().startswith("### warpwatch")


@pytest.mark.parametrize(
    ("words", "unset", "code", "message"),
    [
        (["--to", "github", "--pull-request", "7"], "GITHUB_TOKEN", 1, "GITHUB_TOKEN is not set"),
        (["--to", "gitlab", "--pull-request", "7"], "GITLAB_TOKEN", 1, "GITLAB_TOKEN is not set"),
        (["--to", "gitlab"], "", 1, "give --pull-request N"),
        (["--to", "github"], "", 2, "--to github needs --pull-request N"),
        (["--to", "github", "--pull-request", "7", "--repository", "../x"], "", 1, "is not a repository"),
        (["--to", "github", "--pull-request", "7"], "GITHUB_REPOSITORY", 1, "set GITHUB_REPOSITORY"),
        (["--to", "comment", "--to", "summary", "--output", "x"], "", 2, "--output takes one text"),
        (["--to", "comment", "--replies"], "", 2, "--replies needs --to github or --to gitlab"),
        ([], "", 2, "give --to"),
    ],
)
def test_wrong_options_are_reported(
    github: Forge, file: Path, words: list[str], unset: str, code: int, message: str
) -> None:
    environment = {name: value for name, value in github.environment.items() if name != unset}
    for name in ("GITHUB_TOKEN", "GITLAB_TOKEN", "GITHUB_REPOSITORY"):
        environment.setdefault(name, "")
    done = _run(github, file, *words, environment=environment)
    assert done.exit_code == code, done.output
    assert message in done.output


def test_a_file_that_is_no_artefact_is_refused(github: Forge, tmp_path: Path) -> None:
    (tmp_path / "evil.json").write_text(json.dumps({"base": BASE}))
    done = _run(github, tmp_path / "evil.json", "--to", "github", "--pull-request", 7)
    assert done.exit_code == 2
    assert "not an artefact of `warpwatch gate --artefact`" in done.output
    assert github.server.requests == []


def test_a_forge_that_fails_once_loses_nothing(forge: Forge, file: Path, pauses: list[float]) -> None:
    for operation in (forge.listing, forge.head, forge.post):
        forge.server.failures.append(Failure(operation=operation, status=502))
    done = _run(forge, file, "--to", _target(forge), "--pull-request", 7, "--replies")
    assert done.exit_code == 0, done.output
    assert len(forge.talk.mine()) == 1
    assert len(pauses) == 3


def test_check_runs_are_written_if_comments_fail(forge: Forge, file: Path, pauses: list[float]) -> None:
    forge.server.failures += [Failure(operation=forge.listing, status=500) for _ in range(20)]
    done = _run(forge, file, "--to", _target(forge), "--pull-request", 7, "--replies")
    assert done.exit_code == 1
    assert done.output.splitlines()[-1].startswith(
        "Error: replies are ignored: gave up after 6 attempts, try again later"
    )
    assert "Traceback" not in done.output
    if isinstance(forge.server, GitHubServer):
        assert [run["conclusion"] for run in forge.server.runs.values()] == ["failure"]


def test_check_runs_that_are_refused_leave_the_comment(github: Forge, file: Path, pauses: list[float]) -> None:
    github.server.failures += [
        Failure(operation="post /repos/{owner}/{repo}/check-runs", status=500) for _ in range(20)
    ]
    done = _run(github, file, "--to", "github", "--pull-request", 7)
    assert done.exit_code == 1
    assert "Error: gave up after 6 attempts, try again later: GitHub answered 500 (the check runs" in done.output
    assert len(github.talk.mine()) == 1
