"""A maintainer accepts by reply: comment and checks follow from what was measured alone."""

import json

import pytest
from click.testing import CliRunner

from tests.ci.reports.examples import artefact, row
from warpwatch.ci.cli import main
from warpwatch.ci.gate.artefact import ArtefactCommit
from warpwatch.dashboard.model.verdict import Verdict

WORD = "/warpwatch accept rope* it is right now"
RUN = "4711"


def call(*words):
    done = CliRunner().invoke(main, [*map(str, words)])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def regressed(hub, monkeypatch):
    """Pull request 7 with a regression that run 4711 measured, reported and concluded; its newest commit."""
    base = hub.commit({"kernel.cu": "// one\n"})
    head = hub.commit({"kernel.cu": "// two\n"}, base, branch="topic")
    hub.server.add_pull(7, head=head, base=base)
    measured = artefact(row(1, Verdict.REGRESSED), base=ArtefactCommit(hash=base), head=ArtefactCommit(hash=head))
    folder = hub.folder / "found"
    folder.mkdir(parents=True)
    (folder / "gate-gpu-t4.json").write_text(measured.model_dump_json())
    hub.run_for("workflow_run", {})
    monkeypatch.setenv("GITHUB_RUN_ID", RUN)
    report(hub, head)
    assert conclusions(hub) == {"failure"}
    return head


def report(hub, head, *run):
    """The steps of the workflow after the first."""
    common = ["--pull-request", "7", "--head", head]
    call("forge", "report-gate", hub.folder / "found/gate-gpu-t4.json", "--to", "github", "--replies", *common)
    gpus = json.dumps(["gpu-t4"])
    call("forge", "conclude-gate", hub.folder / "found", "--gpus", gpus, "--state", "measure", *run, *common)


def conclusions(hub):
    """Of the newest check of each name."""
    return set({each["name"]: each["conclusion"] for each in hub.server.check_runs.values()}.values())


def post_comment(hub, words=WORD, author="ada", action="created"):
    """In a comment that stands there; what the job's first step says and leaves for the others."""
    number = max(hub.server.comments) + 1
    hub.server.comments[number] = {
        "id": number,
        "user": {"login": author},
        "body": words,
        "created_at": "2099-01-01T00:00:00Z",
    }
    payload = {"action": action, "comment": hub.server.comments[number], "issue": {"number": 7, "pull_request": {}}}
    hub.run_for("issue_comment", payload)
    output = call("forge", "accept-reply")
    return output, hub.output() if (hub.folder / "output").exists() else {}


def test_an_accepted_regression_no_longer_fails(hub, regressed, monkeypatch):
    _, found = post_comment(hub)
    assert found == {"pull": "7", "head": regressed, "run": RUN}
    monkeypatch.setenv("GITHUB_RUN_ID", "9999")  # the reply's own run has no artefacts
    report(hub, found["head"], "--run", found["run"])
    assert conclusions(hub) == {"success"}
    assert "accepted" in hub.server.comments[1]["body"]
    assert hub.server.bodies("POST", "/issues/comments/2/reactions") == [{"content": "+1"}]
    assert post_comment(hub)[1]["run"] == RUN


def test_a_deleted_reply_no_longer_counts(hub, regressed):
    post_comment(hub)
    report(hub, regressed)
    assert conclusions(hub) == {"success"}
    del hub.server.comments[2]
    report(hub, regressed)
    assert conclusions(hub) == {"failure"}


@pytest.mark.parametrize(
    ("words", "author", "answer"),
    [
        (WORD, "eve", "only users with write access"),
        (WORD, "nobody", "only users with write access"),
        ("/warpwatch accept rope*", "ada", "expected `/warpwatch accept <glob>"),
    ],
)
def test_invalid_commands_are_answered_and_change_nothing(words, author, answer, hub, regressed):
    _, found = post_comment(hub, words, author)
    assert found == {}
    [reply] = hub.server.bodies("POST", "/issues/7/comments")[1:]
    assert answer in reply["body"]
    assert hub.server.bodies("POST", "/issues/comments/2/reactions") == [{"content": "-1"}]


def test_an_unmeasured_commit_cannot_be_accepted(hub, regressed):
    newer = hub.commit({"kernel.cu": "// three\n"}, regressed, branch="topic")
    hub.server.pulls[7]["head"]["sha"] = newer
    output, found = post_comment(hub)
    assert found == {}
    assert f"{newer} is not measured yet" in output


def test_a_check_of_that_name_by_another_application_leads_nowhere(hub, regressed):
    for each in hub.server.check_runs.values():
        each["app"] = {"slug": "eves-app"}
    assert "is not measured yet" in post_comment(hub)[0]


def test_a_commit_that_was_passed_over_stays_so(hub, regressed):
    hub.server.check_runs.clear()
    call(
        "forge",
        "conclude-gate",
        hub.folder,
        "--gpus",
        "[]",
        "--pull-request",
        "7",
        "--head",
        regressed,
        "--state",
        "skip",
    )
    assert "is not measured yet" in post_comment(hub)[0]


@pytest.mark.parametrize(
    ("words", "action"),
    [(f"`{WORD}`", "created"), (f"```\n{WORD}\n```", "created"), ("thanks", "created"), (WORD, "edited")],
)
def test_other_comments_cause_no_request(words, action, hub, regressed):
    before = len(hub.server.requests)
    assert "no `/warpwatch accept`" in post_comment(hub, words, action=action)[0]
    assert len(hub.server.requests) == before


def test_nothing_is_accepted_on_a_closed_pull_request(hub, regressed):
    hub.server.pulls[7]["state"] = "closed"
    assert "is not open" in post_comment(hub)[0]


def test_a_check_run_of_no_application_leads_nowhere(hub, regressed):
    for each in hub.server.check_runs.values():
        each["app"] = None
    assert "is not measured yet" in post_comment(hub)[0]


def test_a_failing_github_is_retried_and_then_reported(hub, regressed, pauses):
    hub.server.failing = {r"GET /commits/.*": [502, 503]}
    assert post_comment(hub)[1]["run"] == RUN
    hub.server.failing = {r"GET /commits/.*": [502] * 20}
    (hub.folder / "output").unlink()
    number = max(hub.server.comments) + 1
    comment = {"id": number, "user": {"login": "ada"}, "body": WORD, "created_at": "2099-01-01T00:00:00Z"}
    hub.run_for("issue_comment", {"action": "created", "comment": comment, "issue": {"number": 7, "pull_request": {}}})
    done = CliRunner().invoke(main, ["forge", "accept-reply"])
    assert done.exit_code == 1
    assert not (hub.folder / "output").exists()
    assert "@ada: not accepted; gave up after 6 attempts" in hub.server.bodies("POST", "/issues/7/comments")[-1]["body"]


def test_an_acceptance_uses_the_earlier_run_while_a_new_one_measures(hub, regressed):
    newest = hub.server.check_runs[max(hub.server.check_runs)]
    again = {**newest, "id": 99, "status": "in_progress", "external_id": "f" * 64}
    hub.server.check_runs[99] = again
    assert post_comment(hub)[1]["run"] == RUN
