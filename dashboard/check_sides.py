"""Two sides of one commit judged: two machines, or two implementations of the same work measured in the same runs.

The statistics are those of a check of two commits: the noise of a couple is that of its noisier side, all couples are
one family, and what is too small or too noisy to tell is said so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from warpwatch.dashboard.check import CheckRow
from warpwatch.dashboard.check_noise import HistoryNoises, rerun_noises
from warpwatch.dashboard.limit_rules.limits import Limits, LimitsOf
from warpwatch.dashboard.statistics.comparison import Comparison, compare, compare_exact, judge
from warpwatch.dashboard.statistics.noise import Noise
from warpwatch.dashboard.statistics.student import student_quantile
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.queries.pairs import Pair, Side
from warpwatch.dashboard.store.records import Commit, Series, Status
from warpwatch.dashboard.store.store import Store
from warpwatch.dashboard.verdict import Verdict

_NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Couple:
    """Two series of one commit, judged. The row's series is head's; a change is head against base."""

    against: Series
    row: CheckRow


def check_machines(
    store: Store, project: str, commit: Commit, base: str, head: str, *, limits: LimitsOf, are_models: bool = False
) -> tuple[Couple, ...]:  # fmt: skip
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
) -> tuple[Couple, ...]:  # fmt: skip
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
) -> tuple[Couple, ...]:  # fmt: skip
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
        comparisons.append(_compared(base, head, noise, rerun, least, beside))
    verdicts = judge(comparisons, [head.series.metric.better for _, head in known], threshold=matters)
    return tuple(
        Couple(against=base.series, row=_row(base, head, comparison, verdict, limit))
        for (base, head), comparison, verdict, limit in zip(known, comparisons, verdicts, limited, strict=True)
    )


def _compared(
    base: Pair, head: Pair, noise: Noise | None, rerun: Noise | None, threshold: float, beside: bool
) -> Comparison | None:  # fmt: skip
    runs, others = base.base.runs, head.head.runs
    if head.series.metric.is_exact and (certain := compare_exact(runs, others)) is not None:
        return certain
    return compare(runs, others, history_noise=noise, threshold=threshold, rerun_noise=rerun, beside=beside)


def _noisier(*noises: Noise | None) -> Noise | None:
    """The one that makes intervals wider, few degrees of freedom counted."""
    told = [noise for noise in noises if noise is not None]
    reach = {id(n): n.scale * (student_quantile(n.freedom) if n.freedom else _NORMAL_95) for n in told}
    return max(told, key=lambda noise: reach[id(noise)], default=None)


def _row(
    base: Pair, head: Pair, comparison: Comparison | None, verdict: Verdict, limits: Limits
) -> CheckRow:  # fmt: skip
    reason = None
    for side, pair in (("base", base), ("head", head)):
        if not pair.head.runs:
            verdict, reason = Verdict.MISSING, _why_missing(pair.head, side)
    if reason is None and comparison is None:
        verdict, reason = Verdict.INCONCLUSIVE, "no ratio to a value at or below zero"
    return CheckRow(
        series=head.series, verdict=verdict, reason=reason, base=_level(base.base), head=_level(head.head),
        comparison=comparison, control_change=None, limits=limits,
    )  # fmt: skip


def _why_missing(side: Side, name: str) -> str:
    told = f"{side.status.value}: {side.reason}" if side.status and side.reason else None
    return told or f"not measured at {name}"


def _level(side: Side) -> float | None:
    return median(run.value for run in side.runs) if side.runs else None
