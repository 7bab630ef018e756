"""Compares two commits series by series and says what moved: the judgement behind `warpwatch check`.

Canaries and baselines measured in the same runs are controls: no commit of the project moves them, so a change that
they share on a machine is the machine's, and is taken off every other series there (machine_drift.py).
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from statistics import median

from ..model.history import no_number
from ..model.naming import card_name
from ..model.quantities import change as change_text
from ..model.series import Commit, Series, Status
from ..model.thresholds import Limits, LimitsOf
from ..model.verdict import Verdict
from ..statistics.comparison import FAMILY_ERROR, Comparison, RunValue, compare, compare_exact, judge, level
from ..statistics.cross_gpu import AcrossCards, across_cards
from ..statistics.noise import Noise
from ..statistics.power import family_level, runs_to_tell
from ..store import queries
from ..store.engine import Store
from ..store.policy import Acceptance
from ..store.queries.comparison_pairs import Pair, Side
from .machine_drift import Drift, machine_drifts, raw_change, rivals_shift
from .noise import HistoryNoises, rerun_noises

# What changed between two commits that only different physical cards measured, beside what the cards differ by.

_Place = tuple[str, str, tuple[str, str]]  # machine, environment, and the two cards


def changes_across_cards(found: Sequence[Pair]) -> Mapping[str, AcrossCards]:
    """By the key of the series: latencies of ours, where enough baselines of the same two cards tell."""
    kernels: dict[_Place, dict[str, float]] = defaultdict(dict)
    controls: dict[_Place, list[float]] = defaultdict(list)
    for pair in found:
        moved = _moved(pair)
        if moved is None or pair.other_cards is None:
            continue
        place = (pair.series.machine, pair.series.environment, pair.other_cards)
        if pair.series.is_watched:
            kernels[place][pair.series.key] = moved
        elif pair.series.is_baseline:
            controls[place].append(moved)
    told: dict[str, AcrossCards] = {}
    for place, its in kernels.items():
        told |= zip(its, across_cards(list(its.values()), controls[place]), strict=False)
    return told


def _moved(pair: Pair) -> float | None:
    if pair.series.metric.noise_family != "latency" or not pair.base.runs or not pair.head.runs:
        return None
    before, after = (level([run.value for run in side.runs]) for side in (pair.base, pair.head))
    return math.log(after / before) if before > 0 and after > 0 else None


_VERDICTS = (
    Verdict.REGRESSED,
    Verdict.INVALID,
    Verdict.INCONCLUSIVE,
    Verdict.IMPROVED,
    Verdict.UNCHANGED,
    Verdict.MISSING,
)
_ORDER = {verdict: place for place, verdict in enumerate(_VERDICTS)}

_Case = tuple[str, tuple[str, ...], str, str]  # benchmark, case, machine, environment: what rivals share
_Reruns = Mapping[str, Noise]  # by the key of the series


class Outcome(IntEnum):
    """What a check ends in; also the command's exit status."""

    UNCHANGED_OR_BETTER = 0
    REGRESSED = 1  # or a benchmark fails at head
    COULD_NOT_TELL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """One series, judged. Changes are relative, drift of the machine taken off."""

    series: Series
    verdict: Verdict
    reason: str | None  # of INVALID and MISSING, and why it could not be told
    base: float | None  # medians over runs
    head: float | None
    comparison: Comparison | None
    control_change: float | None  # median change of the rivals of the same workload
    limits: Limits
    across: AcrossCards | None = None  # of what another card measured: told beside, and no verdict
    accepted: Acceptance | None = None  # a person's word that it may be slower, or gone
    fails: bool = False  # base has a number; head was measured and has none

    @property
    def decides(self) -> bool:
        """Whether the outcome of the check hangs on it."""
        return self.limits.blocks and self.accepted is None

    @property
    def counts_from(self) -> float:
        """The smallest relative change that counts, the floor made a share of what base has."""
        return self.limits.counts_from(self.base, self.head)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A comparison of two commits. Rows: regressions first, then what could not be told, the largest first."""

    project: str
    base: Commit
    head: Commit
    threshold: float  # where a row's own limits do not say otherwise
    rows: tuple[CheckRow, ...]
    drifts: tuple[Drift, ...]
    notes: tuple[str, ...] = ()  # what its reader has to know beside the rows
    fault: str | None = None  # why head cannot be merged whatever its numbers are

    @property
    def outcome(self) -> Outcome:
        """REGRESSED if anything that decides regressed or fails at head; else whether every such series could be told,
        and there was one."""
        deciding = {row.verdict for row in self.rows if row.decides}
        if self.fault or any(row.decides and (row.fails or row.verdict is Verdict.REGRESSED) for row in self.rows):
            return Outcome.REGRESSED
        compared = deciding or {row.verdict for row in self.rows}
        if Verdict.INCONCLUSIVE in deciding or not compared - {Verdict.MISSING}:
            return Outcome.COULD_NOT_TELL
        return Outcome.UNCHANGED_OR_BETTER

    @property
    def failing(self) -> tuple[CheckRow, ...]:
        """Series that have a number at base, fail at head, and decide."""
        return tuple(row for row in self.rows if row.fails and row.decides)

    def count(self, verdict: Verdict) -> int:
        """How many series got that verdict."""
        return sum(row.verdict is verdict for row in self.rows)


def check(
    store: Store,
    project: str,
    base: Commit,
    head: Commit,
    *,
    threshold: float,
    limits: LimitsOf | None = None,
    machine: str | None = None,
    all_metrics: bool = False,
    family_error: float = FAMILY_ERROR,
    since_ms: int | None = None,
) -> Check:
    """Compares every judged series of the two commits; all are one family, so that false alarms stay rare.

    `limits` tells what each series has to do to count; without it `threshold` is that of all. With `since_ms`, only
    series that a run since then (milliseconds of Unix time) measured at either commit, and one that has a number at
    base and no record at head fails there.
    """
    found = queries.pairs(
        store, project, base.hash, head.hash, machine=machine, all_metrics=all_metrics, since_ms=since_ms
    )
    rows, drifts = judged_pairs(found, threshold=threshold, limits=limits, family_error=family_error)
    return Check(project=project, base=base, head=head, threshold=threshold, rows=rows, drifts=drifts)


def judged_pairs(
    found: Sequence[Pair], *, threshold: float, limits: LimitsOf | None = None, family_error: float = FAMILY_ERROR
) -> tuple[tuple[CheckRow, ...], tuple[Drift, ...]]:
    """The rows of a check, and how the machines moved between its ends."""
    alike = Limits(threshold=threshold)
    reruns = rerun_noises(found)
    drifts = machine_drifts(found, _canary_moves(found, threshold, reruns))
    drift_of = {drift.machine: drift for drift in drifts}
    judged = [pair for pair in found if pair.series.is_watched and _has_something(pair)]
    shared = {name: drift.change for name, drift in drift_of.items()}
    noises = HistoryNoises(found, shared, rivals_shift(found))
    limited = [limits(pair.series) if limits is not None else alike for pair in judged]
    matters = [
        limit.counts_from(_level(pair.base.runs), _level(pair.head.runs))
        for pair, limit in zip(judged, limited, strict=True)
    ]
    comparisons = [
        _compare(pair, least, shared.get(pair.series.machine, 0.0), noises, reruns)
        for pair, least in zip(judged, matters, strict=True)
    ]
    better = [pair.series.metric.better for pair in judged]
    verdicts = judge(comparisons, better, threshold=matters, family_error=family_error)
    strictness = family_level(zip(comparisons, verdicts, strict=True), family_error)
    rivals = _rivals(found)
    across = changes_across_cards(found)
    rows = [
        _row(
            pair,
            _with_runs_needed(comparison, verdict, least, strictness),
            verdict,
            limit,
            drift_of.get(pair.series.machine),
            rivals,
            across.get(pair.series.key),
        )
        for pair, comparison, verdict, limit, least in zip(judged, comparisons, verdicts, limited, matters, strict=True)
    ]
    return in_order(rows), drifts


def _with_runs_needed(comparison: Comparison | None, verdict: Verdict, least: float, level: float) -> Comparison | None:
    """Of what is inconclusive, how many more runs its family's test would take."""
    if verdict is not Verdict.INCONCLUSIVE or comparison is None:
        return comparison
    wanted = runs_to_tell(comparison, threshold=least, level=level)
    return comparison._replace(runs_needed=wanted - min(comparison.base_runs, comparison.head_runs))


def in_order(rows: Iterable[CheckRow]) -> tuple[CheckRow, ...]:
    """As a check tells them."""
    return tuple(sorted(rows, key=place_of))


def place_of(row: CheckRow) -> tuple[int, float]:
    """What rows are sorted by: regressions first, then what could not be told, the largest first."""
    told = row.comparison or (row.across if row.across is not None and row.across.is_told else None)
    return _ORDER[Verdict.INVALID if row.fails else row.verdict], -abs(told.change) if told else 0.0


def _has_something(pair: Pair) -> bool:
    """Whether either side has more to say than that the thing is not available."""
    nothing = (None, Status.UNAVAILABLE)
    return pair.base.status not in nothing or pair.head.status not in nothing


def _canary_moves(found: Sequence[Pair], threshold: float, reruns: _Reruns) -> dict[str, Comparison]:
    """The canaries compared, by the keys of their series, with the noise that histories and re-runs tell.

    What the other controls did between the two commits is not taken for noise here: it may be the machine's move.
    """
    canaries = [pair for pair in found if pair.series.is_control and pair.series.metric.is_latency]
    if not canaries:
        return {}
    noises = HistoryNoises(found)
    compared = {pair.series.key: _compare(pair, threshold, 0.0, noises, reruns) for pair in canaries}
    return {key: comparison for key, comparison in compared.items() if comparison is not None}


def _compare(pair: Pair, threshold: float, drift: float, noises: HistoryNoises, reruns: _Reruns) -> Comparison | None:
    if pair.other_cards:
        return None
    if pair.is_one_measurement:
        same = (RunValue(value=1.0),)
        return compare_exact(same, same)
    if pair.series.metric.is_exact and (certain := compare_exact(pair.base.runs, pair.head.runs)) is not None:
        return certain
    drift = drift if pair.series.metric.follows_machine else 0.0
    return compare(
        pair.base.runs,
        pair.head.runs,
        history_noise=noises.of(pair),
        threshold=threshold,
        drift=drift,
        rerun_noise=reruns.get(pair.series.key),
        beside=pair.beside,
    )


def _rivals(found: Sequence[Pair]) -> dict[_Case, list[float]]:
    """How the rivals of each case moved."""
    changes: dict[_Case, list[float]] = {}
    for pair in found:
        if pair.series.is_baseline and (change := raw_change(pair)) is not None:
            changes.setdefault(_case(pair.series), []).append(change)
    return changes


def _case(series: Series) -> _Case:
    return series.benchmark, series.case, series.machine, series.environment


def _row(
    pair: Pair,
    comparison: Comparison | None,
    verdict: Verdict,
    limits: Limits,
    drift: Drift | None,
    rivals: Mapping[_Case, Sequence[float]],
    across: AcrossCards | None,
) -> CheckRow:
    verdict, reason = _judged(pair, comparison, verdict, drift)
    own = pair.series
    beside = rivals.get(_case(own))
    return CheckRow(
        series=own,
        verdict=verdict,
        reason=reason,
        base=_level(pair.base.runs),
        head=_level(pair.head.runs),
        comparison=comparison,
        control_change=math.expm1(median(math.log1p(change) for change in beside)) if beside else None,
        limits=limits,
        across=across,
        fails=_fails(pair),
    )


def _judged(
    pair: Pair, comparison: Comparison | None, verdict: Verdict, drift: Drift | None
) -> tuple[Verdict, str | None]:
    """The verdict of the numbers, unless there is a reason against it; then the reason too."""
    base, head = pair.base, pair.head
    if not head.runs:
        is_invalid = _fails(pair) and head.status not in {None, Status.UNAVAILABLE}
        return (Verdict.INVALID if is_invalid else Verdict.MISSING), _why_missing(head, "head")
    if not base.runs:
        return Verdict.MISSING, _why_missing(base, "base")
    if pair.other_cards:
        on = " and head on ".join(card_name(card) for card in pair.other_cards)
        return Verdict.INCONCLUSIVE, f"another card: base was measured on {on}"
    if comparison is None:
        return Verdict.INCONCLUSIVE, "no ratio to a value at or below zero"
    if pair.is_one_measurement:
        skipped = head if head.status is Status.UNCHANGED else base
        return verdict, no_number(Status.UNCHANGED, skipped.reason)
    told = verdict in {Verdict.REGRESSED, Verdict.IMPROVED} and pair.series.metric.follows_machine
    if told and drift is not None and drift.may_explain(comparison.change):
        moved = ", ".join(f"canary {canary.workload} {change_text(canary.change)}" for canary in drift.canaries)
        return Verdict.INCONCLUSIVE, f"the machine moved: {moved}"
    return verdict, None


def _fails(pair: Pair) -> bool:
    """Whether head was measured and has no number, where base has one: what failed before as well is no news."""
    expected = pair.head.status not in {None, Status.UNCHANGED} or (pair.head.status is None and pair.is_complete)
    return expected and bool(pair.base.runs) and not pair.head.runs


def _why_missing(side: Side, name: str) -> str:
    if side.status is Status.UNCHANGED:
        return no_number(side.status, side.reason)
    return side.reason or f"not measured at {name}"


def _level(runs: Sequence[RunValue]) -> float | None:
    return level([run.value for run in runs]) if runs else None
