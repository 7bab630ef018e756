"""A maintainer's word for a fork's commit: real requests to a GitHub before a real repository."""

import pytest
from click.testing import CliRunner

from warpwatch.ci.cli import main

COMMENT = 555


def comment(hub, words, author="ada", **more):
    payload = {
        "action": "created",
        "comment": {"id": COMMENT, "body": words, "user": {"login": author}, "author_association": "OWNER"},
        "issue": {"number": 7, "pull_request": {"url": "…"}},
    }
    hub.run_for("issue_comment", {**payload, **more})
    return CliRunner().invoke(main, ["forge", "ok-to-test", "--start", "perf-pr.yml"])


@pytest.fixture
def fork(hub):
    """The newest commit of pull request 7, which comes from a fork."""
    base = hub.commit({"kernel.cu": "// one\n"})
    head = hub.commit({"kernel.cu": "// two\n"}, base, branch=None)
    hub.server.add_pull(7, head=head, base=base, source="eve/kernels")
    return head


def test_the_named_commit_is_copied_and_measured_by_the_default_branchs_workflow(hub, fork):
    done = comment(hub, f"/ok to test {fork}\nlooks fine")
    assert done.exit_code == 0, done.output
    assert hub.server.branch("pull-request/7") == fork
    started = hub.server.bodies("POST", "/actions/workflows/perf-pr.yml/dispatches")
    assert started == [{"ref": "main", "inputs": {"pull": "7", "sha": fork}}]
    assert hub.server.bodies("POST", f"/issues/comments/{COMMENT}/reactions") == [{"content": "+1"}]


def test_a_second_approval_moves_the_branch(hub, fork):
    comment(hub, f"/ok to test {fork}")
    newer = hub.commit({"kernel.cu": "// three\n"}, fork, branch=None)
    hub.server.pulls[7]["head"]["sha"] = newer
    assert comment(hub, f"/ok to test {newer}").exit_code == 0
    assert hub.server.branch("pull-request/7") == newer


@pytest.mark.parametrize(
    ("words", "author", "message"),
    [
        ("/ok to test {head}", "eve", "only users with write access"),  # whatever author_association says
        ("/ok to test {head}", "nobody", "only users with write access"),
        ("/ok to test", "ada", "give the full hash"),
        ("/ok to test {short}", "ada", "give the full hash"),
        ("/ok to test {head} {head}", "ada", "give the full hash"),
        ("/ok to test {upper}", "ada", "give the full hash"),
        ("/ok to test {other}", "ada", "is not the newest commit"),
    ],
)
def test_invalid_approvals_are_answered_and_start_nothing(words, author, message, hub, fork):
    said_words = words.format(head=fork, short=fork[:12], upper=fork.upper(), other="c" * 40)
    done = comment(hub, said_words, author)
    assert done.exit_code == 0, done.output
    assert hub.server.branch("pull-request/7") is None
    assert not hub.server.bodies("POST", "/actions/.*")
    [answer] = hub.server.bodies("POST", "/issues/7/comments")
    assert message in answer["body"]
    assert hub.server.bodies("POST", f"/issues/comments/{COMMENT}/reactions") == [{"content": "-1"}]


def test_a_closed_pull_request_is_not_measured(hub, fork):
    hub.server.pulls[7]["state"] = "closed"
    comment(hub, f"/ok to test {fork}")
    assert hub.server.branch("pull-request/7") is None


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ("/okay to test {head}", {}),
        ("please /ok to test {head}", {}),
        ("/ok to test {head}", {"action": "edited"}),
        ("/ok to test {head}", {"issue": {"number": 7}}),
    ],
)
def test_comments_without_an_approval_cause_no_request(words, more, hub, fork):
    done = comment(hub, words.format(head=fork), **more)
    assert done.exit_code == 0
    assert not hub.server.requests


def test_a_refusal_of_github_is_reported_with_the_request(hub, fork):
    hub.run_for("issue_comment", {}, token="ghs_stale")
    payload = {
        "action": "created",
        "comment": {"id": 1, "body": f"/ok to test {fork}", "user": {"login": "ada"}},
        "issue": {"number": 7, "pull_request": {}},
    }
    hub.run_for("issue_comment", payload, token="ghs_stale")
    done = CliRunner().invoke(main, ["forge", "ok-to-test", "--start", "perf-pr.yml"])
    assert done.exit_code == 1
    assert "GitHub answered 401 (the permission of ada): Bad credentials" in done.output


@pytest.mark.parametrize(
    "request_kind", [r"GET /collaborators/.*", r"GET /pulls/7", r"POST /git/refs", r"POST /actions/.*", r"GET "]
)
def test_a_single_failure_of_github_is_retried(request_kind, hub, fork, pauses):
    hub.server.failing = {request_kind: [502]}
    done = comment(hub, f"/ok to test {fork}")
    assert done.exit_code == 0, done.output
    assert hub.server.branch("pull-request/7") == fork
    assert hub.server.bodies("POST", f"/issues/comments/{COMMENT}/reactions") == [{"content": "+1"}]


@pytest.mark.parametrize(
    ("request_kind", "status"),
    [(r"POST /actions/.*", 500), (r"POST /actions/.*", 404), (r"POST /git/refs", 422), (r"GET /collaborators/.*", 502)],
)
def test_a_failed_approval_is_answered(request_kind, status, hub, fork, pauses):
    hub.server.failing = {request_kind: [status] * 20}
    done = comment(hub, f"/ok to test {fork}")
    assert done.exit_code == 1
    assert "Traceback" not in done.output
    [answer] = hub.server.bodies("POST", "/issues/7/comments")
    assert answer["body"].startswith("@ada: not tested; ")
    assert f"GitHub answered {status}" in answer["body"]
    assert hub.server.bodies("POST", f"/issues/comments/{COMMENT}/reactions") == [{"content": "-1"}]


def test_an_answer_that_was_lost_is_not_written_twice(hub, fork, pauses):
    hub.server.failing, hub.server.fails_after_work = {r"POST /issues/7/comments": [502, 502]}, True
    assert comment(hub, "/ok to test").exit_code == 0
    assert len(hub.server.comments) == 1


def test_approved_branches_of_closed_pull_requests_are_deleted(hub, fork):
    for number, state in ((5, "closed"), (6, "open")):
        hub.server.add_pull(number, head=fork, base=fork)
        hub.server.pulls[number]["state"] = state
        hub.server.git("update-ref", f"refs/heads/pull-request/{number}", fork)
    assert comment(hub, f"/ok to test {fork}").exit_code == 0
    assert [hub.server.branch(f"pull-request/{number}") for number in (5, 6, 7)] == [None, fork, fork]


def test_branches_that_cannot_be_deleted_stop_nothing(hub, fork):
    hub.server.failing = {r"GET /git/matching-refs/.*": [403]}
    assert comment(hub, f"/ok to test {fork}").exit_code == 0
