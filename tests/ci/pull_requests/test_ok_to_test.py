"""A maintainer's word for a fork's commit: real requests to a GitHub before a real repository."""

import pytest
from click.testing import CliRunner

from warpwatch.ci.main import main

COMMENT = 555


def say(hub, words, author="ada", **more):
    payload = {
        "action": "created",
        "comment": {"id": COMMENT, "body": words, "user": {"login": author}, "author_association": "OWNER"},
        "issue": {"number": 7, "pull_request": {"url": "…"}},
    }
    hub.run_for("issue_comment", {**payload, **more})
    return CliRunner().invoke(main, ["ok-to-test", "--start", "perf-pr.yml"])


@pytest.fixture
def fork(hub):
    """The newest commit of pull request 7, which comes from a fork."""
    base = hub.commit({"kernel.cu": "// one\n"})
    head = hub.commit({"kernel.cu": "// two\n"}, base, branch=None)
    hub.server.add_pull(7, head=head, base=base, source="eve/kernels")
    return head


def test_the_named_commit_is_copied_and_measured_by_the_default_branchs_workflow(hub, fork):
    done = say(hub, f"/ok to test {fork}\nlooks fine")
    assert done.exit_code == 0, done.output
    assert hub.server.branch("pull-request/7") == fork
    started = hub.server.bodies("POST", "/actions/workflows/perf-pr.yml/dispatches")
    assert started == [{"ref": "main", "inputs": {"pull": "7", "sha": fork}}]
    assert hub.server.bodies("POST", f"/issues/comments/{COMMENT}/reactions") == [{"content": "+1"}]


def test_a_second_word_moves_the_branch(hub, fork):
    say(hub, f"/ok to test {fork}")
    newer = hub.commit({"kernel.cu": "// three\n"}, fork, branch=None)
    hub.server.pulls[7]["head"]["sha"] = newer
    assert say(hub, f"/ok to test {newer}").exit_code == 0
    assert hub.server.branch("pull-request/7") == newer


@pytest.mark.parametrize(
    ("words", "author", "said"),
    [
        ("/ok to test {head}", "eve", "only who may push"),  # whatever author_association says
        ("/ok to test {head}", "nobody", "only who may push"),
        ("/ok to test", "ada", "by its full hash"),
        ("/ok to test {short}", "ada", "by its full hash"),
        ("/ok to test {head} {head}", "ada", "by its full hash"),
        ("/ok to test {upper}", "ada", "by its full hash"),
        ("/ok to test {other}", "ada", "is not the newest commit"),
    ],
)
def test_any_other_word_copies_and_starts_nothing_and_is_answered(words, author, said, hub, fork):
    said_words = words.format(head=fork, short=fork[:12], upper=fork.upper(), other="c" * 40)
    done = say(hub, said_words, author)
    assert done.exit_code == 0, done.output
    assert hub.server.branch("pull-request/7") is None
    assert not hub.server.bodies("POST", "/actions/.*")
    [answer] = hub.server.bodies("POST", "/issues/7/comments")
    assert said in answer["body"]
    assert hub.server.bodies("POST", f"/issues/comments/{COMMENT}/reactions") == [{"content": "-1"}]


def test_a_closed_pull_request_is_not_measured(hub, fork):
    hub.server.pulls[7]["state"] = "closed"
    say(hub, f"/ok to test {fork}")
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
def test_what_is_no_word_on_a_pull_request_asks_github_nothing(words, more, hub, fork):
    done = say(hub, words.format(head=fork), **more)
    assert done.exit_code == 0
    assert not hub.server.asked


def test_a_refusal_of_github_is_told_with_the_request(hub, fork):
    hub.run_for("issue_comment", {}, token="ghs_stale")
    payload = {"action": "created", "comment": {"id": 1, "body": f"/ok to test {fork}", "user": {"login": "ada"}},
               "issue": {"number": 7, "pull_request": {}}}  # fmt: skip
    hub.run_for("issue_comment", payload, token="ghs_stale")
    done = CliRunner().invoke(main, ["ok-to-test", "--start", "perf-pr.yml"])
    assert done.exit_code == 1
    assert "GitHub answered 401 (the permission of ada): Bad credentials" in done.output
