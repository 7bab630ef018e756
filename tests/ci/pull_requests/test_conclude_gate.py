"""The check that a branch can require: it reports whatever became of a commit."""

import json

import pytest
from click.testing import CliRunner

from tests.ci.reports.examples import HEAD, row
from tests.ci.reports.examples import artefact as gate_artefact
from warpwatch.ci.cli import main
from warpwatch.ci.gate.artefact import ArtefactCommit
from warpwatch.dashboard.model.verdict import Verdict

REASON = "measured code changed"


def artefact(verdict, head=HEAD):
    return gate_artefact(row(1, Verdict(verdict)), head=ArtefactCommit(hash=head)).model_dump_json()


def leave(hub, label, text):
    folder = hub.folder / "found"
    folder.mkdir(exist_ok=True)
    (folder / f"gate-{label}.json").write_text(text)


def conclude(hub, state="measure", gpus=("gpu-t4", "gpu-l4"), reason=REASON):
    hub.run_for("workflow_run", {})
    arguments = ["--gpus", json.dumps(gpus), "--pull-request", "7", "--head", HEAD, "--state", state]
    arguments += ["--reason", reason]
    done = CliRunner().invoke(main, ["forge", "conclude-gate", str(hub.folder / "found"), *arguments])
    assert done.exit_code == 0, done.output
    newest = hub.server.check_runs[max(hub.server.check_runs)]
    assert (newest["name"], newest["head_sha"], newest["status"]) == ("warpwatch gate", HEAD, "completed")
    return newest["conclusion"], newest["output"]


@pytest.mark.parametrize(
    ("verdicts", "conclusion", "title"),
    [
        (("unchanged", "unchanged"), "success", "gpu-t4 unchanged; gpu-l4 unchanged"),
        (("unchanged", "inconclusive"), "neutral", "gpu-l4 inconclusive"),
        (("regressed", "inconclusive"), "failure", "gpu-t4 regressed, which blocks merging"),
        (
            ("unchanged", "invalid"),
            "failure",
            "gpu-l4 1 benchmark fails at head: benchmarks.rope.Rope.track_latency(cuda-fp16-b1, warpwatch), "
            "which blocks merging",
        ),
        (
            ("missing", "unchanged"),
            "failure",
            "gpu-t4 1 benchmark fails at head: benchmarks.rope.Rope.track_latency(cuda-fp16-b1, warpwatch), "
            "which blocks merging",
        ),
        (("unchanged", None), "failure", "gpu-l4 measured nothing; see the job's log"),
    ],
)
def test_the_worst_machine_counts(verdicts, conclusion, title, hub):
    for label, verdict in zip(("gpu-t4", "gpu-l4"), verdicts, strict=True):
        if verdict:
            leave(hub, label, artefact(verdict))
    conclusion, output = conclude(hub)
    assert (conclusion, output["title"]) == (conclusion, title)
    assert "- gpu-t4: " in output["summary"]
    assert "- gpu-l4: " in output["summary"]


@pytest.mark.parametrize("text", ['{"verdict": "unchanged"}', "\n::error::", artefact("unchanged", head="c" * 40)])
def test_without_an_artefact_of_this_commit_the_check_fails(text, hub):
    leave(hub, "gpu-t4", text)
    assert conclude(hub, gpus=["gpu-t4"])[0] == "failure"


def test_an_artefact_of_an_unexpected_machine_does_not_count(hub):
    leave(hub, "gpu-t4", artefact("unchanged"))
    leave(hub, "gpu-h100", artefact("regressed"))
    assert conclude(hub, gpus=["gpu-t4"])[0] == "success"


@pytest.mark.parametrize(
    ("state", "conclusion"), [("skip", "success"), ("wait", "action_required"), ("failed", "failure")]
)
def test_an_unmeasured_commit_is_reported_with_the_reason(state, conclusion, hub):
    conclusion, output = conclude(hub, state, reason="it comes from a fork")
    assert conclusion == conclusion
    assert output["summary"] == "It comes from a fork."


@pytest.mark.parametrize(("author", "conclusion"), [("ada", "success"), ("eve", "failure")])
def test_a_regression_accepted_by_a_user_with_write_access_succeeds(author, conclusion, hub):
    leave(hub, "gpu-t4", artefact("regressed"))
    marker = f"<!-- warpwatch:gate head={HEAD} since=2026-11-01T12:00:00+00:00 -->"
    comments = (("github-actions[bot]", f"{marker}\nregressed"), (author, "/warpwatch accept rope* it is right now"))
    for number, (login, body) in enumerate(comments, start=1):
        created = f"2026-11-01T12:0{number}:00Z"
        hub.server.comments[number] = {"id": number, "user": {"login": login}, "body": body, "created_at": created}
    assert conclude(hub, gpus=["gpu-t4"])[0] == conclusion


def test_without_gpus_nothing_is_called_good(hub):
    assert conclude(hub, gpus=[])[0] == "neutral"


@pytest.mark.parametrize(
    ("policy", "conclusion"),
    [
        ('[gate]\ninconclusive = "failure"\n', "failure"),
        ('[gate]\ninconclusive = "neutral"\n', "neutral"),
        ("[gate]\nthresold = 1\n", "neutral"),
    ],
)
def test_without_gpus_the_default_branchs_policy_decides(policy, conclusion, hub):
    hub.commit({"warpwatch.toml": policy})
    conclusion, output = conclude(hub, gpus=[])
    assert (conclusion, output["title"]) == (conclusion, "not measured")


def test_a_repeated_conclusion_is_one_check(hub):
    leave(hub, "gpu-t4", artefact("unchanged"))
    conclude(hub, gpus=["gpu-t4"])
    conclude(hub, gpus=["gpu-t4"])
    assert len(hub.server.check_runs) == 1


@pytest.mark.parametrize(
    ("state", "conclusion"),
    [("cancelled", "cancelled"), ("timed-out", "timed_out"), ("stopped", "action_required"), ("error", "failure")],
)
def test_cancelled_and_timed_out_builds_have_their_own_conclusion(state, conclusion, hub):
    conclusion, output = conclude(hub, state, reason="the build was cancelled")
    assert (conclusion, output["summary"]) == (conclusion, "The build was cancelled.")


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("workflow_run", {"workflow_run": {"head_sha": HEAD}}),
        ("workflow_dispatch", {"inputs": {"pull": "7", "sha": HEAD}}),
        ("pull_request", {"pull_request": {"head": {"sha": HEAD}}}),
        ("merge_group", {"merge_group": {"head_sha": HEAD}}),
    ],
)
def test_a_plan_that_failed_is_concluded_by_the_event_alone(event, payload, hub):
    hub.run_for(event, payload)
    done = CliRunner().invoke(
        main, ["forge", "conclude-gate", str(hub.folder / "found"), "--gpus", "[]", "--state", ""]
    )
    assert done.exit_code == 0, done.output
    (check,) = hub.server.check_runs.values()
    assert (check["head_sha"], check["conclusion"], check["output"]["title"]) == (
        HEAD,
        "failure",
        "could not be planned",
    )
    assert "see its log" in check["output"]["summary"]


@pytest.mark.parametrize("payload", [{}, {"workflow_run": None}, {"workflow_run": {"head_sha": "main"}}])
def test_an_event_without_a_commit_is_named(payload, hub):
    hub.run_for("workflow_run", payload)
    done = CliRunner().invoke(main, ["forge", "conclude-gate", str(hub.folder), "--gpus", "[]", "--state", "error"])
    assert done.exit_code == 1
    assert "give --head HASH" in done.output


def test_replies_that_cannot_be_read_leave_the_check_concluded(hub, pauses):
    leave(hub, "gpu-t4", artefact("unchanged"))
    hub.server.failing = {r"GET /issues/7/comments": [502] * 20}
    assert conclude(hub, gpus=["gpu-t4"])[0] == "success"


def test_a_github_that_fails_once_is_concluded_at_once(hub, pauses):
    leave(hub, "gpu-t4", artefact("unchanged"))
    hub.server.failing = {r"GET /issues/7/comments": [502], r"GET /commits/.*": [503], r"POST /check-runs": [500]}
    assert conclude(hub, gpus=["gpu-t4"])[0] == "success"
    assert len(hub.server.check_runs) == 1


def test_a_superseded_commit_that_was_not_measured_is_called_so(hub):
    hub.server.add_pull(7, head="c" * 40, base="a" * 40)
    conclusion, output = conclude(hub, gpus=["gpu-t4"])
    assert conclusion == "cancelled"
    assert "newer commit" in output["summary"]
    hub.server.pulls[7]["head"]["sha"] = HEAD
    hub.server.check_runs.clear()
    assert conclude(hub, gpus=["gpu-t4"])[0] == "failure"


def test_the_check_links_to_the_run_that_measured(hub, monkeypatch):
    monkeypatch.setenv("GITHUB_RUN_ID", "4711")
    leave(hub, "gpu-t4", artefact("unchanged"))
    conclude(hub, gpus=["gpu-t4"])
    (check,) = hub.server.check_runs.values()
    assert check["details_url"] == "https://github.com/ada/kernels/actions/runs/4711"
