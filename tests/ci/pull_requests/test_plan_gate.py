"""Which commits are measured on GPUs: real requests to a GitHub before a real repository."""

import pytest
from click.testing import CliRunner

from warpwatch.ci.cli import main
from warpwatch.ci.code.code_comparison import CodeComparison

IGNORE = "*.md docs/*"


@pytest.fixture
def pull(hub):
    """Makes pull request 7 out of files that it changes, and returns (base, head)."""

    def make(files, source="ada/kernels"):
        base = hub.commit({"kernel.cu": "// one\n", "README.md": "one\n"})
        head = hub.commit(files, base, branch="topic" if source == "ada/kernels" else None)
        tip = hub.commit({"merged.cu": "// meanwhile\n"}, base)
        hub.server.add_pull(7, head=head, base=tip, source=source)
        return base, head

    return make


def after_build(hub, head, *, source="ada/kernels", conclusion="success", event="pull_request", code=None):
    run = {
        "id": 1,
        "event": event,
        "conclusion": conclusion,
        "head_sha": head,
        "head_branch": "topic",
        "head_repository": {"full_name": source, "owner": {"login": source.split("/")[0]}},
        "pull_requests": [],
    }
    return planned(hub, "workflow_run", {"workflow_run": run}, code)


def planned(hub, event, payload, code=None):
    hub.run_for(event, payload)
    file = hub.folder / "code.json"
    if code is not None:
        file.write_text(code if isinstance(code, str) else code.model_dump_json(by_alias=True))
    done = CliRunner().invoke(main, ["forge", "plan-gate", "--ignore", IGNORE, "--code", str(file)])
    assert done.exit_code == 0, done.output
    return hub.output()


def compiled(base, head, **same):
    return CodeComparison(schema=1, base=base, head=head, changes=(), unchanged=3, runs_same_code=same)


def test_a_changed_kernel_is_measured_against_the_commit_it_left_main_at(hub, pull):
    base, head = pull({"kernel.cu": "// two\n"})
    decision = after_build(hub, head)
    assert (decision["state"], decision["pull"], decision["base"], decision["head"]) == ("measure", "7", base, head)
    assert "**measure**" in (hub.folder / "summary.md").read_text()


def test_documentation_alone_is_not_measured(hub, pull):
    _, head = pull({"README.md": "two\n", "docs/how.rst": "new\n"})
    assert after_build(hub, head)["state"] == "skip"


def test_a_kernel_moved_to_the_documents_is_a_change(hub, pull):
    _, head = pull({"README.md": "two\n"})
    moved = hub.commit({"docs/kernel.cu": "// one\n", "kernel.cu": "// gone\n"}, head, branch="topic")
    hub.server.pulls[7]["head"]["sha"] = moved
    assert after_build(hub, moved)["state"] == "measure"


def test_more_files_than_github_lists_are_measured(hub, pull):
    _, head = pull({f"docs/{number}.md": "new\n" for number in range(301)})
    assert after_build(hub, head)["state"] == "measure"


def test_a_commit_with_equal_code_is_not_measured(hub, pull):
    base, head = pull({"kernel.cu": "// another word\n"})
    assert after_build(hub, head, code=compiled(base, head, sm_75=True, sm_89=True))["state"] == "skip"


@pytest.mark.parametrize(
    "damage", ["one architecture", "another commit", "another base", "no architectures", "no file"]
)
def test_anything_less_than_the_same_code_of_these_commits_is_measured(damage, hub, pull):
    base, head = pull({"kernel.cu": "// another word\n"})
    codes = {
        "one architecture": compiled(base, head, sm_75=True, sm_89=False),
        "another commit": compiled(base, "c" * 40, sm_75=True),
        "another base": compiled("c" * 40, head, sm_75=True),
        "no architectures": compiled(base, head),
        "no file": '{"schema": 1, "::error::": "\\n::error::"}',
    }
    assert after_build(hub, head, code=codes[damage])["state"] == "measure"


def test_a_fork_is_measured_only_after_approval(hub, pull):
    base, head = pull({"kernel.cu": "// two\n"}, source="eve/kernels")
    decision = after_build(hub, head, source="eve/kernels")
    assert decision["state"] == "wait"
    assert f"`/ok to test {head}`" in decision["reason"]
    hub.server.git("update-ref", "refs/heads/pull-request/7", head)
    approved = planned(hub, "workflow_dispatch", {"inputs": {"pull": "7", "sha": head}})
    assert (approved["state"], approved["base"], approved["head"]) == ("measure", base, head)


def test_a_fork_that_changes_only_documents_needs_no_approval(hub, pull):
    _, head = pull({"README.md": "two\n"}, source="eve/kernels")
    assert after_build(hub, head, source="eve/kernels")["state"] == "skip"


def test_a_forks_own_comparison_of_code_does_not_count(hub, pull):
    base, head = pull({"kernel.cu": "// two\n"}, source="eve/kernels")
    decision = after_build(hub, head, source="eve/kernels", code=compiled(base, head, sm_75=True))
    assert decision["state"] == "wait"


def test_a_fork_with_a_branch_name_of_ours_is_a_fork(hub, pull):
    _, head = pull({"kernel.cu": "// two\n"}, source="eve/kernels")
    hub.server.add_pull(8, head="d" * 40, base="d" * 40, branch="topic")
    assert after_build(hub, head, source="eve/kernels")["state"] == "wait"


def test_a_dispatch_without_approval_is_refused(hub, pull):
    _, head = pull({"kernel.cu": "// two\n"}, source="eve/kernels")
    hub.run_for("workflow_dispatch", {"inputs": {"pull": "7", "sha": head}})
    done = CliRunner().invoke(main, ["forge", "plan-gate"])
    assert done.exit_code == 1
    assert f"{head} of #7 is not approved for testing" in done.output
    assert not (hub.folder / "output").exists()


def test_an_approval_of_an_older_commit_measures_nothing(hub, pull):
    _, head = pull({"kernel.cu": "// two\n"}, source="eve/kernels")
    hub.server.git("update-ref", "refs/heads/pull-request/7", head)
    hub.server.pulls[7]["head"]["sha"] = hub.commit({"kernel.cu": "// three\n"}, head, branch=None)
    assert planned(hub, "workflow_dispatch", {"inputs": {"pull": "7", "sha": head}})["state"] == ""


def test_a_commit_that_does_not_build_is_not_measured(hub, pull):
    _, head = pull({"kernel.cu": "// two\n"})
    assert after_build(hub, head, conclusion="failure")["state"] == "failed"


@pytest.mark.parametrize("case", ["push", "closed", "moved on"])
def test_a_build_of_no_open_pull_requests_newest_commit_is_nothing_to_do(case, hub, pull):
    _, head = pull({"kernel.cu": "// two\n"})
    if case == "closed":
        hub.server.pulls[7]["state"] = "closed"
    if case == "moved on":
        hub.server.pulls[7]["head"]["sha"] = "c" * 40
    decision = after_build(hub, head, event="push" if case == "push" else "pull_request")
    assert (decision["state"], decision["pull"]) == ("", "")


def test_a_caller_started_by_the_pull_request_itself_is_planned_too(hub, pull):
    base, head = pull({"kernel.cu": "// two\n"})
    decision = planned(hub, "pull_request", {"pull_request": {"number": 7}})
    assert (decision["state"], decision["base"], decision["head"]) == ("measure", base, head)


def test_an_unsupported_event_is_named(hub):
    hub.run_for("push", {})
    done = CliRunner().invoke(main, ["forge", "plan-gate"])
    assert done.exit_code == 1
    assert "no pull request in a push event" in done.output


@pytest.mark.parametrize("status", [403, 429, 500, 502])
def test_a_temporary_failure_of_github_is_retried(status, hub, pull, pauses):
    _, head = pull({"kernel.cu": "// two\n"})
    hub.server.failing = {"GET /pulls": [502], r"GET /compare/.*": [500 if status == 403 else status] * 3}
    assert after_build(hub, head)["state"] == "measure"
    assert len(pauses) == 4


def test_an_unavailable_github_is_reported_in_one_sentence(hub, pull, pauses):
    pull({"kernel.cu": "// two\n"})
    hub.server.failing = {r"GET /compare/.*": [502] * 20}
    hub.run_for("pull_request", {"pull_request": {"number": 7}})
    done = CliRunner().invoke(main, ["forge", "plan-gate"])
    assert done.exit_code == 1
    assert done.output.startswith("Error: gave up after 6 attempts, try again later: GitHub answered 502 (GET /repos/")
    assert not (hub.folder / "output").exists()


def test_a_planned_measurement_has_a_check_in_progress_with_a_link(hub, pull, monkeypatch):
    monkeypatch.setenv("GITHUB_RUN_ID", "4711")
    _, head = pull({"kernel.cu": "// two\n"})
    after_build(hub, head)
    (check,) = hub.server.check_runs.values()
    assert (check["name"], check["head_sha"], check["status"]) == ("warpwatch gate", head, "in_progress")
    assert check["details_url"] == "https://github.com/ada/kernels/actions/runs/4711"


def test_a_check_that_cannot_be_shown_keeps_nothing_from_being_measured(hub, pull, pauses):
    _, head = pull({"kernel.cu": "// two\n"})
    hub.server.failing = {r"POST /check-runs": [403]}
    assert after_build(hub, head)["state"] == "measure"


@pytest.mark.parametrize(
    ("conclusion", "state", "words"),
    [
        ("cancelled", "cancelled", "was cancelled"),
        ("timed_out", "timed-out", "ran out of time"),
        ("startup_failure", "stopped", "could not start"),
        ("action_required", "stopped", "waits for a maintainer"),
        ("skipped", "stopped", "ended with skipped"),
    ],
)
def test_a_build_that_did_not_end_is_not_one_that_failed(conclusion, state, words, hub, pull):
    _, head = pull({"kernel.cu": "// two\n"})
    decision = after_build(hub, head, conclusion=conclusion)
    assert decision["state"] == state
    assert words in decision["reason"]
    assert "does not build" not in decision["reason"]


@pytest.mark.parametrize(("conclusion", "state"), [("success", "skip"), ("failure", "failed")])
def test_a_merge_queues_commit_gets_the_check_without_a_measurement(conclusion, state, hub, pull):
    base, _ = pull({"kernel.cu": "// two\n"})
    group = hub.commit({"kernel.cu": "// two, merged\n"}, base, branch=None)
    branch = f"gh-readonly-queue/release/1.0/pr-7-{base}"
    run = {
        "event": "merge_group",
        "conclusion": conclusion,
        "head_sha": group,
        "head_branch": branch,
        "head_repository": {"full_name": "ada/kernels", "owner": {"login": "ada"}},
    }
    decision = planned(hub, "workflow_run", {"workflow_run": run})
    assert (decision["state"], decision["pull"], decision["base"], decision["head"]) == (state, "7", base, group)


def test_a_merge_group_itself_is_planned_too(hub, pull):
    base, head = pull({"kernel.cu": "// two\n"})
    group = {"head_sha": head, "head_ref": f"refs/heads/gh-readonly-queue/main/pr-7-{base}", "base_sha": base}
    decision = planned(hub, "merge_group", {"action": "checks_requested", "merge_group": group})
    assert (decision["state"], decision["head"]) == ("skip", head)
