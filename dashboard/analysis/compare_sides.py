"""Comparison of two sides: commits, machines, or implementations of the same work."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median

from ..model.metric import Metric
from ..model.naming import kernel_of
from ..model.series import Commit, Series, Status, Workload
from ..model.thresholds import Limits, LimitsOf, StatedLimits
from ..model.verdict import Verdict
from ..statistics.comparison import Comparison, compare, compare_exact, judge
from ..statistics.distributions import student_quantile
from ..statistics.noise import Noise, times_noise
from ..store import queries
from ..store.engine import Store
from ..store.queries.comparison_pairs import Pair, Side
from .compare_commits import CheckRow, check, place_of
from .machine_drift import Drift
from .noise import HistoryNoises, rerun_noises
from .thresholds import JudgedBy, judged_by

# Two sides of one commit judged: two machines, or two implementations of the same work measured in the same runs.
#
# The statistics are those of a check of two commits: the noise of a couple is that of its noisier side, all couples
# are one family, and what is too small or too noisy to tell is said so.

_NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Couple:
    """Two series of one commit, judged. The row's series is head's; a change is head against base."""

    against: Series
    row: CheckRow


def check_machines(
    store: Store, project: str, commit: Commit, base: str, head: str, *, limits: LimitsOf, are_models: bool = False
) -> tuple[Couple, ...]:
    """Every judged series of one machine against the same of the other, rivals and canaries too.

    Two models (`are_models`) differ whatever the noise: then what was measured decides, and no test.
    """
    found = queries.pairs(store, project, commit.hash, commit.hash)
    at_base = {_work(pair.series): pair for pair in found if pair.series.machine == base}
    couples = [
        (other, pair)
        for pair in found
        if pair.series.machine == head and (other := at_base.get(_work(pair.series))) is not None
    ]
    judged = _judged(found, couples, limits, is_one_run=False)
    return tuple(replace(each, row=_by_level(each.row)) for each in judged) if are_models else judged


def check_implementations(
    store: Store, project: str, commit: Commit, base: str, head: str, *, limits: LimitsOf
) -> tuple[Couple, ...]:
    """Every judged series of one implementation against that of another, of the same case, machine and runs.

    An empty `base` is every baseline, an empty `head` every implementation of ours.
    """
    found = [
        pair
        for pair in queries.pairs(store, project, commit.hash, commit.hash)
        if pair.series.implementation is not None and not pair.series.is_control
    ]
    cases: dict[tuple[object, ...], tuple[list[Pair], list[Pair]]] = {}
    for pair in found:
        own = pair.series
        place = (own.benchmark, own.case, own.machine, own.environment)
        if own.implementation == base or (not base and own.is_baseline):
            cases.setdefault(place, ([], []))[0].append(pair)
        if own.implementation == head or (not head and own.is_watched):
            cases.setdefault(place, ([], []))[1].append(pair)
    couples = [(rival, ours) for rivals, all_ours in cases.values() for ours in all_ours for rival in rivals]
    couples = [(rival, ours) for rival, ours in couples if rival is not ours]
    return _judged(found, couples, limits, is_one_run=True)


def _by_level(row: CheckRow) -> CheckRow:
    """The row with the verdict of its levels alone: how far they lie apart, and which way."""
    if row.comparison is None or row.verdict is Verdict.MISSING:
        return row
    change, metric = row.comparison.change, row.series.metric
    if abs(change) < row.limits.counts_from(row.base, row.head):
        return replace(row, verdict=Verdict.UNCHANGED)
    return replace(row, verdict=Verdict.REGRESSED if metric.is_worse(change) else Verdict.IMPROVED)


def _work(series: Series) -> tuple[object, ...]:
    return series.benchmark, series.parameters, series.environment


def _judged(
    found: Sequence[Pair], couples: Iterable[tuple[Pair, Pair]], limits: LimitsOf, *, is_one_run: bool
) -> tuple[Couple, ...]:
    known = [both for both in couples if any(pair.base.status not in {None, Status.UNAVAILABLE} for pair in both)]
    histories, reruns = HistoryNoises(found), rerun_noises(found)
    limited = [replace(limits(head.series), blocks=True) for _, head in known]  # nobody waits for what differs
    matters = [
        limit.counts_from(_level(base.base), _level(head.head))
        for limit, (base, head) in zip(limited, known, strict=True)
    ]
    comparisons = []
    for (base, head), least in zip(known, matters, strict=True):
        noise = _noisier(histories.of(base), histories.of(head))
        rerun = _noisier(reruns.get(base.series.key), reruns.get(head.series.key))
        beside = is_one_run and base.beside and head.beside
        comparisons.append(_compared_couples(base, head, noise, rerun, least, beside))
    verdicts = judge(comparisons, [head.series.metric.better for _, head in known], threshold=matters)
    return tuple(
        Couple(against=base.series, row=_row(base, head, comparison, verdict, limit))
        for (base, head), comparison, verdict, limit in zip(known, comparisons, verdicts, limited, strict=True)
    )


def _compared_couples(
    base: Pair, head: Pair, noise: Noise | None, rerun: Noise | None, threshold: float, beside: bool
) -> Comparison | None:
    runs, others = base.base.runs, head.head.runs
    if head.series.metric.is_exact and (certain := compare_exact(runs, others)) is not None:
        return certain
    return compare(runs, others, history_noise=noise, threshold=threshold, rerun_noise=rerun, beside=beside)


def _noisier(*noises: Noise | None) -> Noise | None:
    """The one that makes intervals wider, few degrees of freedom counted."""
    told = [noise for noise in noises if noise is not None]
    reach = {id(n): n.scale * (student_quantile(n.freedom) if n.freedom else _NORMAL_95) for n in told}
    return max(told, key=lambda noise: reach[id(noise)], default=None)


def _row(base: Pair, head: Pair, comparison: Comparison | None, verdict: Verdict, limits: Limits) -> CheckRow:
    reason = None
    for side, pair in (("base", base), ("head", head)):
        if not pair.head.runs:
            verdict, reason = Verdict.MISSING, _why_missing(pair.head, side)
    if reason is None and comparison is None:
        verdict, reason = Verdict.INCONCLUSIVE, "no ratio to a value at or below zero"
    return CheckRow(
        series=head.series,
        verdict=verdict,
        reason=reason,
        base=_level(base.base),
        head=_level(head.head),
        comparison=comparison,
        control_change=None,
        limits=limits,
    )


def _why_missing(side: Side, name: str) -> str:
    told = f"{side.status.value}: {side.reason}" if side.status and side.reason else None
    return told or f"not measured at {name}"


def _level(side: Side) -> float | None:
    return median(run.value for run in side.runs) if side.runs else None


# Two sides compared as the compare page, its links and programs want them: commits, machines or implementations.
#
# The judgement is that of compare_commits.py and compare_sides.py; here each row learns what readers narrow it by.

_SAID_ONCE = 3  # rows of one reason


class By(StrEnum):
    """What the two sides are."""

    COMMIT = "commit"
    MACHINE = "machine"
    IMPLEMENTATION = "implementation"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRow:
    """One judged row. Between two commits the two series are the same."""

    against: Series  # base's
    judged: CheckRow  # of head's series
    kernel: str  # the operator, or the benchmark's module where none is known
    dtype: str | None

    @property
    def series(self) -> Series:
        """Head's."""
        return self.judged.series

    @property
    def change(self) -> float | None:
        """Relative, head against base."""
        return self.judged.comparison.change if self.judged.comparison else None

    @property
    def times_noise(self) -> float | None:
        """How many times the noise of one run the change is; None where there is no noise or no change to tell."""
        told = self.judged.comparison
        return times_noise(told.change, told.noise) if told is not None else None

    def own_limit(self, general: float) -> float | None:
        """The smallest change that counts, where it is not what holds in general, and one of both would tell this one;
        else None."""
        least = self.judged.counts_from
        is_near = self.change is not None and abs(self.change) >= min(least, general)
        return least if is_near and least != general and math.isfinite(least) else None

    @property
    def speed(self) -> float | None:
        """Head's speed as a multiple of base's; None for what is no time."""
        base, head = self.judged.base, self.judged.head
        return base / head if base and head and self.series.metric.is_time else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedReason:
    """Why several rows of a comparison could not be judged."""

    reason: str
    rows: int
    cards: tuple[float, float, int] | None  # how far these GPUs differ, 95 %, by so many baselines; None: not one range


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A comparison: regressions first, then what could not be told, the largest first.

    Of machines and implementations latency comes before all else: memory may differ by five digits, and is not
    what is asked first. What its rows can be narrowed by is told once, as there may be thousands.
    """

    project: str
    by: By
    base: Commit  # both the same commit unless commits are compared
    head: Commit
    threshold: float  # where a row's own limits do not say otherwise
    stated: StatedLimits | None  # whose rules it was judged by; None: the dashboard's threshold alone
    rows: tuple[ComparedRow, ...]
    drifts: tuple[Drift, ...]  # machines that moved between two commits; taken off
    kernels: tuple[str, ...]
    machines: tuple[str, ...]
    dtypes: tuple[str, ...]
    metrics: tuple[Metric, ...]
    are_models: bool = False  # two machines with other GPUs (or CPUs): judged by their levels alone

    @property
    def shared_reasons(self) -> tuple[SharedReason, ...]:
        """Why several rows could not be judged, to be said once for all of them; the commonest first."""
        together: dict[str, list[CheckRow]] = {}
        for row in self.rows:
            if row.judged.verdict is Verdict.INCONCLUSIVE and row.judged.reason:
                together.setdefault(row.judged.reason, []).append(row.judged)
        found = [_shared(reason, rows) for reason, rows in together.items() if len(rows) >= _SAID_ONCE]
        return tuple(sorted(found, key=lambda each: -each.rows))


def _shared(reason: str, rows: Iterable[CheckRow]) -> SharedReason:
    rows = tuple(rows)
    across = {(each.cards_low, each.cards_high, each.controls) for row in rows if (each := row.across) is not None}
    return SharedReason(reason=reason, rows=len(rows), cards=across.pop() if len(across) == 1 else None)


def compare_commits(
    store: Store, project: str, base: Commit, head: Commit, *, threshold: float, all_metrics: bool = False
) -> Compared:
    """What `warpwatch check` says of them, by the limits that the project states; `threshold` is for what it leaves
    open."""
    limits = judged_by(store, project, threshold=threshold)
    found = check(store, project, base, head, threshold=limits.threshold, limits=limits.limits, all_metrics=all_metrics)
    rows = [(row.series, row) for row in found.rows]
    return _compared(store, project, By.COMMIT, (base, head), rows, limits, found.drifts)


def compare_machines(store: Store, project: str, commit: Commit, base: str, head: str, *, threshold: float) -> Compared:
    """One machine against another at a commit that both measured."""
    limits = judged_by(store, project, threshold=threshold)
    models = {each.name: each.gpu or each.cpu for each in queries.machines(store, project)}
    are_models = None not in (known := (models.get(base), models.get(head))) and known[0] != known[1]
    couples = check_machines(store, project, commit, base, head, limits=limits.limits, are_models=are_models)
    compared = _compared(store, project, By.MACHINE, (commit, commit), _in_order(couples), limits)
    return replace(compared, are_models=are_models)


def compare_implementations(
    store: Store, project: str, commit: Commit, base: str, head: str, *, threshold: float
) -> Compared:
    """One implementation against another in the same runs; empty names mean every baseline, and every one of ours."""
    limits = judged_by(store, project, threshold=threshold)
    couples = check_implementations(store, project, commit, base, head, limits=limits.limits)
    return _compared(store, project, By.IMPLEMENTATION, (commit, commit), _in_order(couples), limits)


def _in_order(couples: Iterable[Couple]) -> list[tuple[Series, CheckRow]]:
    """Base's series and the row of each: latency first, then as a check tells them."""
    ordered = sorted(couples, key=lambda couple: (not couple.row.series.metric.is_latency, *place_of(couple.row)))
    return [(couple.against, couple.row) for couple in ordered]


def _compared(
    store: Store,
    project: str,
    by: By,
    ends: tuple[Commit, Commit],
    judged: Iterable[tuple[Series, CheckRow]],
    limits: JudgedBy,
    drifts: tuple[Drift, ...] = (),
) -> Compared:
    rows = _rows(judged, queries.project_workloads(store, project))
    return Compared(
        project=project,
        by=by,
        base=ends[0],
        head=ends[1],
        threshold=limits.threshold,
        stated=limits.stated,
        rows=rows,
        drifts=drifts,
        kernels=tuple(sorted({row.kernel for row in rows})),
        machines=tuple(sorted({row.series.machine for row in rows})),
        dtypes=tuple(sorted({row.dtype for row in rows if row.dtype})),
        metrics=tuple(sorted({row.series.metric for row in rows}, key=lambda metric: (metric.label, metric.unit))),
    )


def _rows(
    judged: Iterable[tuple[Series, CheckRow]], known: Mapping[tuple[str, str], Workload]
) -> tuple[ComparedRow, ...]:
    rows = []
    for against, row in judged:
        workload = known.get((row.series.suite, row.series.workload or "")) if row.series.workload else None
        rows.append(
            ComparedRow(
                against=against,
                judged=row,
                kernel=kernel_of(row.series, workload),
                dtype=workload.dtype if workload else None,
            )
        )
    return tuple(rows)
