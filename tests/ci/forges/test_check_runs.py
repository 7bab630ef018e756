"""A check run of GitHub's: made once a report, all its annotations in it, none of them twice."""

import pytest

from tests.ci.forges.conftest import Forge, doubling
from tests.ci.forges.forge_server import Failure
from tests.ci.forges.servers import GitHubServer
from tests.ci.reports.examples import FULL, artefact, row
from warpwatch.ci.forges.forge_request import ForgeError
from warpwatch.ci.forges.github import CheckRun, Conclusion, GitHubThread
from warpwatch.ci.gate.artefact import Source
from warpwatch.ci.reports.comment import check_run
from warpwatch.ci.reports.gate_labels import Links
from warpwatch.dashboard.model.verdict import Verdict

CREATE, UPDATE = "post /repos/{owner}/{repo}/check-runs", "patch /repos/{owner}/{repo}/check-runs"


def _many() -> CheckRun:
    """120 benchmarks regressed."""
    rows = [row(n, Verdict.REGRESSED, source=Source(path=f"suite/b{n}.py", line=1)) for n in range(120)]
    return check_run(artefact(*rows), Links())


def _put(github: Forge, report: CheckRun) -> bool:
    thread = github.thread()
    assert isinstance(thread, GitHubThread)
    return thread.put_check_run(report, sleep=github.waits.append)


def _lines(github: Forge) -> list[list[str]]:
    assert isinstance(github.server, GitHubServer)
    return [[remark["path"] for remark in run["sent"]] for run in github.server.runs.values()]


def test_it_concludes_and_is_made_once(github: Forge) -> None:
    report = check_run(FULL, Links())
    assert _put(github, report)
    assert not _put(github, report)
    assert isinstance(github.server, GitHubServer)
    (run,) = github.server.runs.values()
    assert (run["conclusion"], run["name"], run["status"]) == ("failure", "warpwatch gate (Tesla T4)", "completed")
    assert run["output"]["summary"].startswith("### warpwatch: regressed")


def test_annotations_go_fifty_at_a_time(github: Forge) -> None:
    assert _put(github, _many())
    (lines,) = _lines(github)
    assert len(lines) == len(set(lines)) == 120
    assert [github.server.count(each) for each in (CREATE, UPDATE)] == [1, 2]


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("operation", [CREATE, UPDATE])
def test_one_that_was_cut_short_is_gone_on_with(github: Forge, operation: str, done: bool) -> None:
    report = _many()
    github.server.failures += [Failure(operation=operation, status=None, done=done)]
    _put(github, report)
    (lines,) = _lines(github)
    assert len(lines) == len(set(lines)) == 120
    assert github.waits == doubling(1.0, 1)


def test_another_report_of_the_commit_is_another_run(github: Forge) -> None:
    assert _put(github, check_run(FULL, Links()))
    assert _put(github, check_run(FULL.model_copy(update={"rows_left_out": 3}), Links()))
    assert len(_lines(github)) == 2


def test_an_earlier_conclusion_is_set_again(github: Forge) -> None:
    """An acceptance that was taken back: GitHub goes by the newest run of a name."""
    failed, accepted = (
        CheckRun(name="warpwatch gate", head="b" * 40, conclusion=text, title=text, summary=text, annotations=())
        for text in ("failure", "success")
    )
    assert [_put(github, each) for each in (failed, accepted, failed, failed)] == [True, True, True, False]
    assert isinstance(github.server, GitHubServer)
    assert [run["conclusion"] for run in github.server.runs.values()] == ["failure", "success", "failure"]


def test_a_token_without_permission_gets_a_hint(github: Forge) -> None:
    body = {"message": "Resource not accessible by integration"}
    github.server.failures.append(Failure(operation=CREATE, status=403, body=body))
    with pytest.raises(ForgeError, match="needs checks: write"):
        _put(github, check_run(FULL, Links()))


def _state(conclusion: Conclusion | None, run: str = "1") -> CheckRun:
    return CheckRun(
        name="warpwatch gate",
        head="b" * 40,
        conclusion=conclusion,
        title=str(conclusion),
        summary="",
        annotations=(),
        details_url=f"https://github.com/owner/name/actions/runs/{run}",
    )


def test_one_in_progress_is_completed(github: Forge) -> None:
    assert isinstance(github.server, GitHubServer)
    assert _put(github, _state(None))
    assert [run["status"] for run in github.server.runs.values()] == ["in_progress"]
    assert not _put(github, _state(None))
    assert _put(github, _state("success", "2"))
    (run,) = github.server.runs.values()
    assert (run["status"], run["conclusion"]) == ("completed", "success")
    assert run["details_url"].endswith("/owner/name/actions/runs/2")
    assert _put(github, _state(None, "3"))  # measured again
    assert [run["status"] for run in github.server.runs.values()] == ["completed", "in_progress"]


def test_one_in_progress_of_another_application_is_left_to_it(github: Forge) -> None:
    assert isinstance(github.server, GitHubServer)
    _put(github, _state(None))
    github.server.failures.append(Failure(operation=UPDATE, status=403, body={"message": "Invalid app_id"}))
    assert _put(github, _state("success"))
    assert [run["status"] for run in github.server.runs.values()] == ["in_progress", "completed"]


def test_a_cancelled_run_does_not_replace_the_next_result(github: Forge) -> None:
    assert isinstance(github.server, GitHubServer)
    _put(github, _state(None, "2"))
    assert not _put(github, _state("cancelled", "1"))
    assert [run["status"] for run in github.server.runs.values()] == ["in_progress"]
    assert _put(github, _state("cancelled", "2"))
    assert [run["conclusion"] for run in github.server.runs.values()] == ["cancelled"]
