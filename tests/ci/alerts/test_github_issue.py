"""Alerts as GitHub issues: one for each, updated by comments, closed with it, and never a second one."""

from collections.abc import Iterator

import pytest

from tests.ci.alerts.conftest import Scene
from tests.ci.alerts.github_server import GitHubServer, github
from tests.ci.alerts.test_lifecycle import OTHER, SLOW, STEADY
from warpwatch.ci.alerts.alert_content import DeliveryError, Message
from warpwatch.ci.alerts.channels.github_issue import deliver
from warpwatch.ci.policy.policy_model import AlertsTable, Destination, Route
from warpwatch.dashboard.store.outbox import undelivered


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    with github() as found:
        yield found


@pytest.fixture
def destination(server: GitHubServer) -> Destination:
    return Destination(name="issues", github="o/r", token_env="TOKEN", api=server.url, labels=("warpwatch", "perf"))


def message(action: str = "opened", number: int = 1) -> Message:
    key = "thread" if number == 1 else f"thread-{number}"
    return Message(
        key=key,
        thread="thread",
        action=action,
        title="slower",
        text=f"text {number}",
        payload={},
        labels=("regression",),
    )


def test_an_alert_s_life_is_one_issue(scene: Scene, server: GitHubServer, destination: Destination) -> None:
    scene.to = ()
    scene.policy = AlertsTable(destination=(destination,), route=(Route(kind=("regression",), to=("issues",)),))
    scene.environment = {"TOKEN": "s3cr3t"}
    scene.measure([*STEADY, *SLOW])
    scene.look()
    (issue,) = server.issues
    assert {label["name"] for label in issue["labels"]} == {"warpwatch", "perf", "regression"}
    assert "First bad commit 0000000a" in issue["body"]
    scene.measure([*STEADY, *SLOW], name=OTHER)
    scene.look()
    scene.measure(STEADY, first=20)
    scene.measure(STEADY, first=20, name=OTHER)
    scene.look()
    (issue,) = server.issues
    assert [("1 more series moved" in c["body"], "the level is back" in c["body"]) for c in server.comments[1]] == [
        (True, False),
        (False, True),
    ]
    assert (issue["state"], issue["state_reason"]) == ("closed", "completed")
    assert undelivered(scene.store, "demo") == ()
    assert server.refused == []
    assert server.tokens == {"token s3cr3t"}


@pytest.mark.usefixtures("pauses")
@pytest.mark.parametrize("lost", [0, 1])
def test_a_sender_that_dies_before_the_answer_makes_no_second_issue_and_no_second_comment(
    server: GitHubServer, destination: Destination, lost: int
) -> None:
    for action, number in (("opened", 1), ("updated", 2), ("resolved", 3), ("reopened", 4)):
        server.silent_after = lost
        for _ in range(4):
            try:
                found = deliver(message(action, number), destination, "s3cr3t", None)
            except DeliveryError:
                continue
            assert found == "1"
    assert len(server.issues) == 1
    assert [comment["body"].partition("\n")[0] for comment in server.comments[1]] == ["text 2", "text 3", "text 4"]
    assert server.issues[0]["state"] == "open"
    assert server.refused == []


def test_an_issue_is_found_behind_hundreds_of_others(server: GitHubServer, destination: Destination) -> None:
    deliver(message(), destination, "s3cr3t", None)
    for _ in range(250):
        server.issue({"title": "another", "body": "", "labels": ["warpwatch"]})
    assert deliver(message("updated", 2), destination, "s3cr3t", None) == "1"


def test_an_end_without_an_issue_makes_none(server: GitHubServer, destination: Destination) -> None:
    assert deliver(message("resolved", 2), destination, "s3cr3t", None) is None
    assert server.issues == []


def test_a_refusal_by_github_is_reported_without_the_token(server: GitHubServer, destination: Destination) -> None:
    server.answer = 403
    with pytest.raises(DeliveryError, match="GitHub answered 403 for o/r: as configured") as raised:
        deliver(message(), destination, "s3cr3t", None)
    assert "s3cr3t" not in str(raised.value)


def test_an_issue_that_was_deleted_is_made_anew(server: GitHubServer, destination: Destination) -> None:
    assert deliver(message(), destination, "s3cr3t", None) == "1"
    server.deleted.add(1)
    assert deliver(message("resolved", 2), destination, "s3cr3t", "1") is None
    assert deliver(message("updated", 3), destination, "s3cr3t", "1") == "2"
    assert deliver(message("updated", 4), destination, "s3cr3t", "2") == "2"
    assert [len(each) for each in server.comments.values()] == [0, 1]


def test_a_token_that_may_not_label_makes_no_second_issue(server: GitHubServer, destination: Destination) -> None:
    server.may_label = False
    assert deliver(message(), destination, "s3cr3t", None) == "1"
    assert deliver(message("updated", 2), destination, "s3cr3t", None) == "1"


@pytest.mark.parametrize("status", [429, 500, 502])
def test_a_single_failure_of_github_is_retried(
    server: GitHubServer, destination: Destination, pauses: list[float], status: int
) -> None:
    server.answer, server.answer_times, server.answer_headers = status, 1, {"Retry-After": "2"}
    assert deliver(message(), destination, "s3cr3t", None) == "1"
    assert pauses == [2.0]


@pytest.mark.parametrize(("headers", "wait_s"), [({"Retry-After": "90"}, 90.0), ({}, 60.0)])
def test_githubs_retry_after_is_passed_on(
    server: GitHubServer, destination: Destination, headers: dict[str, str], wait_s: float
) -> None:
    server.answer, server.answer_headers = 429, headers
    with pytest.raises(DeliveryError, match="gave up after 1 attempt, try again later: GitHub answered 429") as raised:
        deliver(message(), destination, "s3cr3t", None)
    assert raised.value.wait_s == wait_s
