"""Compares two commits series by series and says what moved: the judgement behind `warpwatch check`.

Baselines measured in the same runs are controls: no commit of the project moves them, so a change that they share on a
machine is the machine's, and is taken off every other series there.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from statistics import median

from warpwatch.dashboard.statistics.comparison import (
    Comparison,
    RunValue,
    common_drift,
    compare,
    compare_exact,
    judge,
)
from warpwatch.dashboard.statistics.machine_noise import Peer, history_noise, machine_scale, peer
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.queries.pairs import Pair
from warpwatch.dashboard.store.records import Commit, Series, Status
from warpwatch.dashboard.store.store import Store
from warpwatch.dashboard.verdict import Verdict

_ORDER = (
    Verdict.REGRESSED,
    Verdict.INVALID,
    Verdict.INCONCLUSIVE,
    Verdict.IMPROVED,
    Verdict.UNCHANGED,
    Verdict.MISSING,
)

_Place = tuple[str, str, str, str | None]  # machine, environment, unit, noise family: what peers share


class Outcome(IntEnum):
    """What a check ends in; also the command's exit status."""

    UNCHANGED_OR_BETTER = 0
    REGRESSED = 1
    COULD_NOT_TELL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """One series, judged. Changes are relative, drift of the machine taken off."""

    series: Series
    verdict: Verdict
    reason: str | None  # of INVALID and MISSING
    base: float | None  # medians over runs
    head: float | None
    comparison: Comparison | None
    control_change: float | None  # median change of the rivals of the same workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A change that a machine's controls share."""

    machine: str
    change: float
    controls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A comparison of two commits. Rows: regressions first, then what could not be told, the largest first."""

    project: str
    base: Commit
    head: Commit
    threshold: float
    rows: tuple[CheckRow, ...]
    drifts: tuple[Drift, ...]

    @property
    def outcome(self) -> Outcome:
        """REGRESSED if anything did; else whether every series could be told."""
        verdicts = {row.verdict for row in self.rows}
        if Verdict.REGRESSED in verdicts:
            return Outcome.REGRESSED
        if verdicts & {Verdict.INCONCLUSIVE, Verdict.INVALID} or not verdicts - {Verdict.MISSING}:
            return Outcome.COULD_NOT_TELL
        return Outcome.UNCHANGED_OR_BETTER

    def count(self, verdict: Verdict) -> int:
        """How many series got that verdict."""
        return sum(row.verdict is verdict for row in self.rows)


def check(
    store: Store, project: str, base: Commit, head: Commit, *, threshold: float, machine: str | None = None,
    all_metrics: bool = False,
) -> Check:  # fmt: skip
    """Compares every judged series of the two commits; all are one family, so that false alarms stay rare."""
    found = queries.pairs(store, project, base.hash, head.hash, machine=machine, all_metrics=all_metrics)
    controls = [
        (pair, change) for pair in found if pair.series.is_baseline and (change := _raw_change(pair)) is not None
    ]
    drifts = _drifts(controls)
    judged = [pair for pair in found if not pair.series.is_baseline and _has_something(pair)]
    drift_of = {drift.machine: drift.change for drift in drifts}
    peers = _peers(found, drift_of)
    comparisons = [_compare(pair, threshold, drift_of.get(pair.series.machine, 0.0), peers) for pair in judged]
    verdicts = judge(comparisons, [pair.series.metric.better for pair in judged], threshold=threshold)
    rows = [
        _row(pair, comparison, verdict, controls)
        for pair, comparison, verdict in zip(judged, comparisons, verdicts, strict=True)
    ]
    rows.sort(key=lambda row: (_ORDER.index(row.verdict), -abs(row.comparison.change) if row.comparison else 0.0))
    return Check(project=project, base=base, head=head, threshold=threshold, rows=tuple(rows), drifts=drifts)


def _has_something(pair: Pair) -> bool:
    """Whether either side has more to say than that the thing is not available."""
    return any(side.status not in {None, Status.UNAVAILABLE} for side in (pair.base, pair.head))


def _raw_change(pair: Pair) -> float | None:
    if not pair.base.runs or not pair.head.runs:
        return None
    before, after = (median(run.value for run in side.runs) for side in (pair.base, pair.head))
    return after / before - 1 if before > 0 and after > 0 else None


def _drifts(controls: Sequence[tuple[Pair, float]]) -> tuple[Drift, ...]:
    found = []
    timed = [(pair.series.machine, change) for pair, change in controls if pair.series.metric.noise_family == "latency"]
    for machine in sorted({name for name, _ in timed}):
        changes = [change for name, change in timed if name == machine]
        shared = common_drift(changes)
        if shared:
            found.append(Drift(machine=machine, change=shared, controls=len(changes)))
    return tuple(found)


def _peers(found: Sequence[Pair], drift_of: Mapping[str, float]) -> dict[_Place, list[tuple[str, Peer]]]:
    """Keys and histories of the series in times that can tell of a machine's noise, by what they have to share."""
    peers: dict[_Place, list[tuple[str, Peer]]] = {}
    for pair in found:
        if not pair.series.metric.is_time or not pair.levels or min(pair.levels) <= 0:
            continue
        control, change = pair.series.is_baseline, _raw_change(pair)
        moved = math.nan
        if control and change is not None:
            moved = math.log1p(change) - math.log1p(drift_of.get(pair.series.machine, 0.0))
        told = peer(pair.levels, is_control=control, span=pair.span, change=moved)
        peers.setdefault(_place(pair.series), []).append((pair.series.key, told))
    return peers


def _place(series: Series) -> _Place:
    return series.machine, series.environment, series.metric.unit, series.metric.noise_family


def _compare(
    pair: Pair, threshold: float, drift: float, peers: Mapping[_Place, Sequence[tuple[str, Peer]]]
) -> Comparison | None:
    if pair.series.metric.is_exact and (certain := compare_exact(pair.base.runs, pair.head.runs)) is not None:
        return certain
    others = [other for key, other in peers.get(_place(pair.series), ()) if key != pair.series.key]
    machine = machine_scale(median(pair.levels), others) if pair.levels else None
    noise = history_noise(pair.levels, machine, pair.span)
    drift = drift if pair.series.metric.follows_machine else 0.0
    return compare(pair.base.runs, pair.head.runs, history_noise=noise, threshold=threshold, drift=drift)


def _row(
    pair: Pair, comparison: Comparison | None, verdict: Verdict, controls: Sequence[tuple[Pair, float]]
) -> CheckRow:
    reason = None
    if not pair.head.runs:
        # What failed before as well is no news.
        news = pair.head.status not in {None, Status.UNAVAILABLE} and pair.base.runs
        verdict = Verdict.INVALID if news else Verdict.MISSING
        reason = pair.head.reason or "not measured at head"
    elif not pair.base.runs:
        verdict, reason = Verdict.MISSING, pair.base.reason or "not measured at base"
    elif comparison is None:
        verdict, reason = Verdict.INCONCLUSIVE, "no ratio to a value at or below zero"
    rivals = [
        change
        for control, change in controls
        if (control.series.benchmark, control.series.workload, control.series.machine, control.series.environment)
        == (pair.series.benchmark, pair.series.workload, pair.series.machine, pair.series.environment)
    ]
    return CheckRow(
        series=pair.series,
        verdict=verdict,
        reason=reason,
        base=_level(pair.base.runs),
        head=_level(pair.head.runs),
        comparison=comparison,
        control_change=math.expm1(median(math.log1p(change) for change in rivals)) if rivals else None,
    )


def _level(runs: Sequence[RunValue]) -> float | None:
    values = [run.value for run in runs]
    return median(values) if values else None
