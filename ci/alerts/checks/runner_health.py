"""Health of a runner: invalid results, throttling, false alarms in A/A comparisons, and shifts of the machine.

A share counts if the lower end of its 95 % interval exceeds the policy's limit. A shift is a change of machine state in
at least three series at one recent commit, until the level is back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from warpwatch.dashboard.analysis.gpu_sessions import pooled_noise
from warpwatch.dashboard.analysis.thresholds import threshold_resolver
from warpwatch.dashboard.analysis.trust import Trust, trust
from warpwatch.dashboard.model.alert import AlertKind, HealthFinding
from warpwatch.dashboard.model.changepoint import Regression, RegressionGroup, SeriesChange
from warpwatch.dashboard.model.overview import OverviewEntry
from warpwatch.dashboard.model.quantities import change as change_words
from warpwatch.dashboard.model.quantities import share as share_words
from warpwatch.dashboard.model.series import Status
from warpwatch.dashboard.statistics.distributions import Share, counted_share
from warpwatch.dashboard.store import Store, cached, queries
from warpwatch.dashboard.store.column_records import RunConditions

from ...policy.policy_model import AlertsTable


@cached()
def machine_trust(store: Store, project: str, machine: str, threshold: float) -> Trust | None:
    """The trust report of a machine; None without classified latencies. `threshold`: unless the project states one."""
    judged = threshold_resolver(store, project, threshold=threshold)
    history = queries.machine_history(store, project, machine)
    if history is None or not history.series:
        return None
    pooled = pooled_noise(store, project, machine)
    return trust(history, threshold=judged.threshold, limits=judged.limits, pooled=pooled)


_FEWEST = 3  # series that shifted with the machine


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerFacts:
    """The facts about one machine that the check needs."""

    machine: str
    standings: Sequence[OverviewEntry]
    conditions: Sequence[RunConditions]  # in the order of time
    trust: Trust | None
    moved: Sequence[RegressionGroup]  # machine states for the worse, of recent commits


def unhealthy_runner(
    facts: RunnerFacts, levels: Mapping[str, Sequence[SeriesChange]], policy: AlertsTable
) -> HealthFinding | None:
    """The finding; None for a healthy runner."""
    found = dict(_found(facts, levels, policy))
    if not found:
        return None
    return HealthFinding(
        kind=AlertKind.UNHEALTHY_RUNNER,
        subject=facts.machine,
        machine=facts.machine,
        kernel=None,
        summary=f"its numbers cannot be trusted ({', '.join(sorted({name.partition(':')[0] for name in found}))})",
        members=tuple(sorted(found)),
        lines=tuple(found.values()),
    )


def _found(
    facts: RunnerFacts, levels: Mapping[str, Sequence[SeriesChange]], policy: AlertsTable
) -> Iterable[tuple[str, str]]:
    measured = [each for each in facts.standings if each.row.status in {Status.OK, Status.INVALID}]
    invalid = [each for each in measured if each.row.status is Status.INVALID]
    if too_many := _beyond(len(invalid), len(measured), policy.invalid_share):
        reason = invalid[0].row.reason or "no reason recorded"
        yield "invalid numbers", f"{_of(too_many)} newest numbers are invalid: {reason}"
    run = next((each for each in reversed(facts.conditions) if each.knows_throttling), None)
    if run is not None and (too_many := _beyond(run.throttled, run.measurements, policy.throttled_share)):
        why = ", ".join(run.throttled_s) or "by its clock-event bits"
        yield "throttled", f"{_of(too_many)} measurements of its newest run were throttled: {why}"
    alarms = facts.trust.same_session if facts.trust is not None else None
    if alarms is not None and alarms.alarms.ci_low > policy.false_alarms:
        yield (
            "false alarms",
            f"{_of(alarms.alarms)} A/A comparisons have false alarms ({share_words(alarms.alarms.ci_low)} to "
            f"{share_words(alarms.alarms.ci_high)}); {share_words(policy.false_alarms)} is allowed",
        )
    for group in facts.moved:
        still = [one for one in group.regressions if not _is_back(one, levels.get(one.series.key, ()), policy)]
        if len(still) >= _FEWEST:
            largest = max(still, key=lambda one: abs(one.change.magnitude))
            yield (
                f"moved: {group.commit.hash}",
                f"{len(still)} series shifted with the machine at {group.commit.hash[:8]}, "
                f"{largest.series.title} by {change_words(largest.change.magnitude)}: no commit is the cause",
            )


def _is_back(one: Regression, levels: Sequence[SeriesChange], policy: AlertsTable) -> bool:
    """Whether the newest level is that before the change, within `recovered_within`."""
    change = one.change
    if not any(each.index == change.index for each in levels):
        return True  # an episode, which is over
    newest = max(levels, key=lambda each: each.index)
    if newest.index == change.index or not change.before:
        return False
    worse = 1.0 if change.magnitude > 0 else -1.0
    return (newest.after / change.before - 1) * worse <= policy.recovered_within


def _beyond(count: int, of: int, limit: float) -> Share | None:
    counted = counted_share(count, of)
    return counted if counted is not None and counted.ci_low > limit else None


def _of(counted: Share) -> str:
    return f"{counted.count} of {counted.of} ({share_words(counted.value)})"
