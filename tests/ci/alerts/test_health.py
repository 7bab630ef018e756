"""Data that does not come, runners that cannot be trusted, kernels that fail their check: each an alert of its own."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.asv_results import hash_of
from tests.ci.alerts.conftest import NAME, Scene
from tests.dashboard.suite_results import MATMUL, TRIAD, Suite
from tests.http_inbox import Inbox, listening
from warpwatch.ci.alerts.checks import runner_health
from warpwatch.ci.alerts.checks.runner_health import RunnerFacts, unhealthy_runner
from warpwatch.ci.policy.policy_model import AlertsTable, Destination, Route
from warpwatch.dashboard.analysis.trust import FalseAlarms, Trust
from warpwatch.dashboard.model.alert import HEALTH_KINDS, AlertState, ItemVersion
from warpwatch.dashboard.model.thresholds import LimitRule
from warpwatch.dashboard.statistics.distributions import counted_share
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.column_records import RunConditions
from warpwatch.dashboard.store.queries.alerts import alerts, health_alerts
from warpwatch.dashboard.store.triage import Decision, triage

STEADY = [1.0, 1.01, 0.99, 1.0, 1.01, 1.0, 0.99, 1.0, 1.01, 1.0]
SLOW = [1.3, 1.31, 1.29, 1.3, 1.31, 1.3, 1.29, 1.3, 1.31, 1.3]
OTHER = "suite.Other.track_latency"
After = Callable[..., datetime]


def reported(inbox: Inbox) -> list[tuple[str, str]]:
    return [(message["event"], message["action"]) for message in inbox.received]


def test_a_machine_that_falls_silent_is_reported_once_and_its_return_too(
    scene: Scene, inbox: Inbox, after: After
) -> None:
    scene.measure(STEADY)
    scene.look(now=after(9, hours=20), health=True)
    assert inbox.received == []
    for days in (3, 4):
        scene.look(now=after(9, days=days), health=True)
    assert reported(inbox) == [("missing data", "opened")]
    assert "no results for 3 days" in inbox.received[0]["title"]
    scene.runs += 60 * 24 * 4
    scene.measure([1.0], first=100)
    scene.look(now=after(101), health=True)
    assert reported(inbox) == [("missing data", "opened"), ("missing data", "resolved")]
    assert inbox.received[0]["thread"] == inbox.received[1]["thread"]
    (alert,) = alerts(scene.store, "demo", kinds=HEALTH_KINDS)
    assert alert.resolved is not None


def test_what_was_silent_long_before_anybody_looked_and_what_is_retired_is_no_news(
    scene: Scene, inbox: Inbox, after: After
) -> None:
    scene.measure(STEADY)
    scene.look(now=after(9, days=31), health=True)
    scene.policy = AlertsTable(retired=("b*",))
    scene.look(now=after(9, days=3), health=True)
    assert inbox.received == []


def test_a_benchmark_that_is_measured_no_more_is_missed(scene: Scene, inbox: Inbox, after: After) -> None:
    scene.asv.benchmark(OTHER)
    for number in range(20):
        rows = {NAME: scene.asv.row([1.0 + number / 1e4], started_at=number + 1)}
        if number < 10:
            rows[OTHER] = scene.asv.row([2.0 + number / 1e4], started_at=number + 1)
        scene.asv.benchmark(NAME)
        scene.asv.commit(number, rows)
    scene.asv.load(scene.store)
    for _ in range(2):
        scene.look(now=after(20), health=True)
    assert reported(inbox) == [("missing data", "opened")] * len(reported(inbox))
    assert [message["kernel"] for message in inbox.received if message["kernel"]] == ["suite"]
    assert f"{OTHER} is no longer measured" in next(m["title"] for m in inbox.received if m["kernel"])


def test_a_plain_asv_projects_kernel_is_its_module_for_routes_rules_and_owners_alike(
    scene: Scene, inbox: Inbox, after: After
) -> None:
    """Of regressions and of health alerts: one route has both."""
    slow, stopped, other = "benchmarks.sort.Sort.track_it", "benchmarks.sort.Sort.track_more", "benchmarks.mix.track_it"
    scene.policy = AlertsTable(
        destination=(Destination(name="sort", url_env="SORT"), Destination(name="rest", url_env="REST")),
        to=("rest",),
        route=(Route(kernel=("benchmarks.sort",), to=("sort",)),),
    )
    scene.rules = (LimitRule(kernel=("benchmarks.sort",), owners=("@org/sort",)),)
    for name in (slow, stopped, other):
        scene.asv.benchmark(name)
    for number, value in enumerate([*STEADY, *SLOW]):
        rows = {name: scene.asv.row([value], started_at=number + 1, spread=0.002) for name in (slow, other)}
        if number < 8:
            rows[stopped] = scene.asv.row([2.0 + number / 1e4], started_at=number + 1)
        scene.asv.commit(number, rows)
    scene.asv.load(scene.store)
    with listening() as rest:
        scene.to, scene.environment = (), {"SORT": inbox.url, "REST": rest.url}
        scene.look(now=after(20), health=True)
        assert {event for event, _ in reported(inbox)} == {"regression", "missing data"}
        assert all(message["owners"] == ["@org/sort"] for message in inbox.received)
        assert {row["benchmark"] for message in inbox.received for row in message.get("regressions", ())} >= {slow}
        assert stopped not in str(rest.received)


def at(number: int) -> datetime:
    """When a suite's run of that commit began."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)


@pytest.fixture
def suite(scene: Scene) -> Suite:
    """Ten workloads over twelve commits, and canaries that stand still."""
    found = Suite(scene.asv, workloads=tuple(f"w{n}" for n in range(10)))
    for number in range(12):
        found.commit(number)
    scene.asv.load(scene.store)
    scene.look(now=at(12), health=True)
    return found


def test_a_kernel_with_a_wrong_result_is_reported_until_it_has_a_number(
    scene: Scene, inbox: Inbox, suite: Suite
) -> None:
    assert inbox.received == []
    suite.commit(12, status="failed", reason="relative error 1.13e-02 exceeds 8e-03", failure="wrong result")
    scene.asv.load(scene.store)
    for _ in range(2):
        scene.look(now=at(13), health=True)
    assert reported(inbox) == [("failed check", "opened")]
    assert inbox.received[0]["kernel"] == "rope"
    assert "10 benchmarks give wrong results (relative error 1.13e-02 exceeds 8e-03)" in inbox.received[0]["title"]
    suite.commit(13)
    scene.asv.load(scene.store)
    scene.look(now=at(14), health=True)
    assert reported(inbox) == [("failed check", "opened"), ("failed check", "resolved")]


def test_a_health_alert_names_the_owners_of_its_series(scene: Scene, inbox: Inbox, suite: Suite) -> None:
    scene.rules = (LimitRule(kernel=("rope",), parameters={"dtype": ("fp16",)}, owners=("@org/rope",)),)
    suite.commit(12, status="failed", failure="wrong result")
    scene.asv.load(scene.store)
    scene.look(now=at(13), health=True)
    assert inbox.received[0]["owners"] == ["@org/rope"]


def test_a_kernel_that_crashes_has_no_number_and_failed_no_check(scene: Scene, inbox: Inbox, suite: Suite) -> None:
    suite.commit(12, status="failed", reason="the worker died with signal 6", failure="crash")
    scene.asv.load(scene.store)
    scene.look(now=at(13), health=True)
    assert reported(inbox) == [("no number", "opened")]
    assert "rope: 10 benchmarks give no number (the worker died with signal 6)" in inbox.received[0]["title"]
    suite.commit(13, status="failed", reason="it wrote over its inputs", failure="wrong result")
    scene.asv.load(scene.store)
    scene.look(now=at(14), health=True)
    assert sorted(reported(inbox)[1:]) == [("failed check", "opened"), ("no number", "resolved")]


@pytest.mark.parametrize("state", [AlertState.EXPECTED, AlertState.FALSE_ALARM])
def test_an_expected_health_alert_sends_nothing_until_it_recurs(
    scene: Scene, inbox: Inbox, suite: Suite, state: AlertState
) -> None:
    def fail(commit: int, at_hour: int) -> None:
        suite.commit(commit, status="failed", reason="it wrote over its inputs", failure="wrong result")
        scene.asv.load(scene.store)
        scene.look(now=at(at_hour), health=True)

    def number(commit: int, at_hour: int) -> None:
        suite.commit(commit)
        scene.asv.load(scene.store)
        scene.look(now=at(at_hour), health=True)

    fail(12, 13)
    (alert,) = health_alerts(scene.store, "demo")
    seen = ItemVersion(key=f"alert-{alert.id}", version=str(alert.version))
    triage(scene.store, "demo", [seen], Decision(state=state), author="Ada", now_ms=1)
    suite.workloads += ("w10",)
    fail(13, 14)
    (alert,) = health_alerts(scene.store, "demo")
    assert (len(alert.finding.members), alert.state) == (11, state)
    number(14, 15)
    assert health_alerts(scene.store, "demo") == ()
    assert reported(inbox) == [("failed check", "opened")]
    fail(15, 16)
    assert reported(inbox) == [("failed check", "opened")] * 2


def test_a_runner_with_many_invalid_numbers_is_not_trusted(scene: Scene, inbox: Inbox, suite: Suite) -> None:
    suite.commit(12, status="invalid", reason="throttled by heat for 0.4 s")
    scene.asv.load(scene.store)
    scene.look(now=at(13), health=True)
    assert reported(inbox) == [("unhealthy runner", "opened")]
    assert inbox.received[0]["lines"] == ["10 of 10 (100 %) newest numbers are invalid: throttled by heat for 0.4 s"]
    suite.commit(13)
    scene.asv.load(scene.store)
    scene.look(now=at(14), health=True)
    assert reported(inbox)[1:] == [("unhealthy runner", "resolved")]


def test_what_the_machine_did_is_reported_for_the_machine_and_for_no_commit(
    scene: Scene, inbox: Inbox, suite: Suite
) -> None:
    slower = dict.fromkeys(("warpwatch", "eager", TRIAD, MATMUL), 1.1)
    for number in range(12, 24):
        suite.commit(number, slower)
    scene.asv.load(scene.store)
    for _ in range(2):
        scene.look(now=at(24), health=True)
    assert reported(inbox) == [("unhealthy runner", "opened")]
    assert f"10 series shifted with the machine at {hash_of(12)[:8]}" in inbox.received[0]["lines"][0]
    for number in range(24, 36):
        suite.commit(number)
    scene.asv.load(scene.store)
    scene.look(now=at(36), health=True)
    assert reported(inbox) == [("unhealthy runner", "opened"), ("unhealthy runner", "resolved")]


def test_throttling_and_false_alarms_count_by_what_is_sure_of_them() -> None:
    def found(throttled: int, false: int, of: int) -> tuple[str, ...]:
        share = counted_share(false, of)
        assert share is not None
        run = RunConditions(
            run="r",
            started_at=None,
            gpu=None,
            measurements=of,
            clock_hz=None,
            clock_low_hz=None,
            clock_high_hz=None,
            temperature_c=None,
            temperature_high_c=None,
            power_limit_w=None,
            throttled_s={"heat": 1.0},
            throttled=throttled,
            knows_throttling=True,
        )
        alarms = FalseAlarms(alarms=share, families=share, beyond_threshold=share, apart=0.01, apart_most=0.02)
        trust = Trust(same_session=alarms, later_sessions=None, detectable=(), family=1, threshold=0.02)
        facts = RunnerFacts(machine="box", standings=(), conditions=(run,), trust=trust, moved=())
        finding = unhealthy_runner(facts, {}, AlertsTable())
        return finding.members if finding is not None else ()

    assert found(0, 0, 100) == ()
    assert found(3, 1, 10) == ()  # of so few nothing is sure
    assert found(40, 0, 100) == ("throttled",)
    assert found(40, 5, 100) == ("false alarms", "throttled")


def test_trust_is_judged_by_the_threshold_that_it_is_given_and_none_of_the_environment(
    scene: Scene, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPWATCH_THRESHOLD", "no number")
    (machine,) = queries.machines(scene.store, "demo")
    for threshold in (0.02, 0.3):
        trust = runner_health.machine_trust(scene.store, "demo", machine.name, threshold)
        assert trust is not None
        assert trust.threshold == threshold
