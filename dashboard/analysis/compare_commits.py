"""Comparison of two commits, series by series: the rows of `warpwatch check`, of the gate, the API and pages.

Canaries and baselines measured in the same runs are controls: no commit of the project changes them, so a change that
they share on a machine is the machine's, and is subtracted from every other series there (noise.py).
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from ..model.comparison import (
    AcrossGpus,
    ComparedBy,
    Comparison,
    ComparisonRow,
    Estimate,
    MachineDrift,
)
from ..model.history import no_number
from ..model.naming import gpu_name, kernel_of
from ..model.quantities import change as change_text
from ..model.schema import CommitSchema, series_schema
from ..model.series import Commit, Series, Status, Workloads, workload_of
from ..model.thresholds import Limits, LimitsOf
from ..model.verdict import CHANGED, Verdict
from ..statistics.comparison import FAMILY_ERROR, RunValue, compare, compare_exact, family_verdicts, level
from ..statistics.distributions import SIGNIFICANT_Q
from ..statistics.gpu_effects import FEWEST
from ..statistics.gpu_spread import judge_across_gpus
from ..statistics.noise import Noise
from ..statistics.power import family_level, required_runs
from ..store import queries
from ..store.engine import Store
from ..store.queries.comparison_pairs import Pair, Side
from .gpu_sessions import AcrossGpuComparison, compare_across_gpus, pooled_noise
from .noise import HistoryNoises, PooledNoise, machine_drifts, may_explain, raw_change, rerun_noises, rivals_shift
from .slow_decline import slow_declines

NO_RATIO = "no ratio to a value at or below zero"
_VERDICTS = (
    Verdict.REGRESSED,
    Verdict.INVALID,
    Verdict.INCONCLUSIVE,
    Verdict.IMPROVED,
    Verdict.UNCHANGED,
    Verdict.MISSING,
)
_ORDER = {verdict: rank for rank, verdict in enumerate(_VERDICTS)}

_Case = tuple[str, tuple[str, ...], str, str]  # benchmark, case, machine, environment: what rivals share
_Reruns = Mapping[str, Noise]  # by the key of the series


def check(
    store: Store,
    project: str,
    base: Commit,
    head: Commit,
    *,
    threshold: float,
    limits: LimitsOf | None = None,
    policy: str | None = None,
    machine: str | None = None,
    all_metrics: bool = False,
    family_error: float = FAMILY_ERROR,
    since_ms: int | None = None,
) -> Comparison:
    """Compare every judged series of two commits; all are one family of tests.

    `limits` gives each series' thresholds, `policy` names their source; without them `threshold` is that of all. With
    `since_ms`, only series that a run since then (milliseconds of Unix time) measured at either commit are compared,
    and one that has a number at base and no record at head fails there.
    """
    found = queries.pairs(
        store, project, base.hash, head.hash, machine=machine, all_metrics=all_metrics, since_ms=since_ms
    )
    workloads = queries.project_workloads(store, project)
    across = compare_across_gpus(store, project, found, workloads)
    rows, drifts = compare_pairs(
        found,
        threshold=threshold,
        limits=limits,
        family_error=family_error,
        workloads=workloads,
        across=across,
        # A gate uses the noise of its own runs, as it compares after each analysis.
        pooled=None if since_ms is not None else lambda machine: pooled_noise(store, project, machine, workloads),
    )
    declines = () if since_ms is not None else _decline_notes(store, project, head, machine)
    return commit_comparison(
        project, base, head, rows, drifts, threshold=threshold, policy=policy, notes=(*across.notes, *declines)
    )


_MOST_DECLINES = 5  # named


def _decline_notes(store: Store, project: str, head: Commit, machine: str | None) -> tuple[str, ...]:
    """A note of each slow decline up to head, the largest first: no comparison of two commits shows them."""
    declines = sorted(
        (
            each
            for each in slow_declines(store, project).values()
            if each.change.range_end.hash == head.hash and machine in {None, each.series.machine}
        ),
        key=lambda each: -abs(each.change.magnitude),
    )
    notes = [
        f"Slow decline: {each.series.title} on {each.series.machine}, {change_text(each.change.magnitude)} since"
        f" {each.change.commit.date:%Y-%m-%d} in small steps"
        + "".join(f", mostly {cause.value}" for cause in list(each.change.causes)[:1])
        for each in declines[:_MOST_DECLINES]
    ]
    more = len(declines) - len(notes)
    return (*notes, *([f"{more} more slow declines: see the regressions page"] if more else []))


def commit_comparison(
    project: str,
    base: Commit,
    head: Commit,
    rows: tuple[ComparisonRow, ...],
    drifts: tuple[MachineDrift, ...],
    *,
    threshold: float,
    policy: str | None = None,
    notes: tuple[str, ...] = (),
) -> Comparison:
    return Comparison(
        project=project,
        by=ComparedBy.COMMIT,
        base=CommitSchema.of(base),
        head=CommitSchema.of(head),
        base_name=None,
        head_name=None,
        threshold=threshold,
        policy=policy,
        drifts=drifts,
        notes=notes,
        fault=None,
        rows=rows,
    )


def compare_pairs(
    found: Sequence[Pair],
    *,
    threshold: float,
    workloads: Workloads,
    limits: LimitsOf | None = None,
    family_error: float = FAMILY_ERROR,
    across: AcrossGpuComparison | None = None,
    pooled: PooledNoise | None = None,
) -> tuple[tuple[ComparisonRow, ...], tuple[MachineDrift, ...]]:
    """The rows of a comparison of two commits, and how their machines moved in between.

    `across`: what references say of pairs that no GPU measured on both sides. `pooled`: noise of series that have no
    other evidence.
    """
    across = across or AcrossGpuComparison()
    uniform = Limits(threshold=threshold)
    reruns = rerun_noises(found)
    drifts = machine_drifts(found, _canary_estimates(found, threshold, reruns))
    drift_of = {drift.machine: drift for drift in drifts}
    compared = [pair for pair in found if pair.series.is_ours and _has_record(pair)]
    shared = {machine: drift.change for machine, drift in drift_of.items()}
    noises = HistoryNoises(found, shared, rivals_shift(found), pooled)
    limit_of = [limits(pair.series) if limits is not None else uniform for pair in compared]
    smallest = [
        limit.min_relative_change(side_level(pair.base), side_level(pair.head))
        for pair, limit in zip(compared, limit_of, strict=True)
    ]
    estimates = [
        _estimate(pair, least, shared.get(pair.series.machine, 0.0), noises, reruns)
        for pair, least in zip(compared, smallest, strict=True)
    ]
    better = [pair.series.metric.better for pair in compared]
    verdicts = family_verdicts(estimates, better, threshold=smallest, family_error=family_error)
    estimates = with_runs_needed(estimates, verdicts, smallest, family_error)
    rivals = _rivals(found)
    rows = []
    for pair, estimate, verdict, limit, least in zip(compared, estimates, verdicts, limit_of, smallest, strict=True):
        if pair.other_gpus is not None and pair.base.runs and pair.head.runs:
            estimate, spread = across.changes.get(pair.series.key, (None, None))
            verdict, reason = _across_gpus(pair, estimate, spread, least, across)
        else:
            spread = None
            verdict, reason = _verdict(pair, estimate, verdict, drift_of.get(pair.series.machine))
        rows.append(
            comparison_row(
                pair.series,
                workloads=workloads,
                limits=limit,
                verdict=verdict,
                reason=reason,
                base=side_level(pair.base),
                head=side_level(pair.head),
                estimate=estimate,
                control_change=rivals.get(_case(pair.series)),
                across_gpus=spread,
                fails=_fails(pair),
            )
        )
    return in_order(rows), drifts


def with_runs_needed(
    estimates: Sequence[Estimate | None], verdicts: Sequence[Verdict], smallest: Sequence[float], family_error: float
) -> list[Estimate | None]:
    """The estimates with `runs_needed`: by the family's test where inconclusive, at least 1; else 0."""
    level = family_level(zip(estimates, verdicts, strict=True), family_error)

    def needed(estimate: Estimate, verdict: Verdict, least: float) -> int:
        if verdict is not Verdict.INCONCLUSIVE:
            return 0
        runs = required_runs(estimate, threshold=least, level=level)
        return max(runs - min(estimate.base_runs, estimate.head_runs), 1)

    return [
        estimate and estimate.model_copy(update={"runs_needed": needed(estimate, verdict, least)})
        for estimate, verdict, least in zip(estimates, verdicts, smallest, strict=True)
    ]


def in_order(rows: Iterable[ComparisonRow]) -> tuple[ComparisonRow, ...]:
    """Regressions first, then inconclusive rows, the largest change first."""
    return tuple(sorted(rows, key=rank))


def rank(row: ComparisonRow) -> tuple[int, float]:
    """The key that rows are sorted by."""
    return _ORDER[Verdict.INVALID if row.fails else row.verdict], -abs(row.estimate.change) if row.estimate else 0.0


def comparison_row(
    series: Series,
    *,
    workloads: Workloads,
    limits: Limits,
    verdict: Verdict,
    reason: str | None,
    base: float | None,
    head: float | None,
    estimate: Estimate | None,
    base_series: Series | None = None,
    control_change: float | None = None,
    across_gpus: AcrossGpus | None = None,
    fails: bool = False,
) -> ComparisonRow:
    """The row of a series, with its name, owners and threshold."""
    workload = workload_of(series, workloads)
    least = limits.min_relative_change(base, head)
    return ComparisonRow(
        series=series_schema(series),
        base_series=series_schema(base_series) if base_series is not None and base_series != series else None,
        kernel=kernel_of(series, workload),
        dtype=workload.dtype if workload else None,
        verdict=verdict,
        reason=reason,
        fails=fails,
        base=base,
        head=head,
        estimate=estimate,
        control_change=control_change,
        min_relative_change=least if math.isfinite(least) else None,
        blocks=limits.blocks,
        owners=limits.owners,
        accepted=None,
        across_gpus=across_gpus,
    )


def side_level(side: Side) -> float | None:
    """Median over runs; None without a number."""
    return level([run.value for run in side.runs]) if side.runs else None


def _has_record(pair: Pair) -> bool:
    """Whether either side has a record other than "unavailable"."""
    nothing = (None, Status.UNAVAILABLE)
    return pair.base.status not in nothing or pair.head.status not in nothing


def _canary_estimates(found: Sequence[Pair], threshold: float, reruns: _Reruns) -> dict[str, Estimate]:
    """Estimates of the canaries, by the keys of their series, with the noise of histories and re-runs.

    Changes of the other controls between the two commits are no noise here: they may be the machine's drift.
    """
    canaries = [pair for pair in found if pair.series.is_control and pair.series.metric.is_latency]
    if not canaries:
        return {}
    noises = HistoryNoises(found)
    estimates = {pair.series.key: _estimate(pair, threshold, 0.0, noises, reruns) for pair in canaries}
    return {key: estimate for key, estimate in estimates.items() if estimate is not None}


def _estimate(pair: Pair, threshold: float, drift: float, noises: HistoryNoises, reruns: _Reruns) -> Estimate | None:
    if pair.other_gpus:
        return None
    if pair.is_one_measurement:
        same = (RunValue(value=1.0),)
        return compare_exact(same, same)
    if pair.series.metric.is_exact and (exact := compare_exact(pair.base.runs, pair.head.runs)) is not None:
        return exact
    drift = drift if pair.series.metric.follows_machine else 0.0
    return compare(
        pair.base.runs,
        pair.head.runs,
        history_noise=noises.of(pair),
        threshold=threshold,
        drift=drift,
        rerun_noise=reruns.get(pair.series.key),
        same_session=pair.same_session,
    )


def _rivals(found: Sequence[Pair]) -> dict[_Case, float]:
    """Median relative change of the baselines of each case."""
    changes: dict[_Case, list[float]] = defaultdict(list)
    for pair in found:
        if pair.series.is_baseline and (change := raw_change(pair)) is not None:
            changes[_case(pair.series)].append(math.log1p(change))
    return {case: math.expm1(median(logs)) for case, logs in changes.items()}


def _case(series: Series) -> _Case:
    return series.benchmark, series.case, series.machine, series.environment


def _across_gpus(
    pair: Pair, estimate: Estimate | None, spread: AcrossGpus | None, least: float, across: AcrossGpuComparison
) -> tuple[Verdict, str | None]:
    """The verdict of a series that no GPU measured on both sides, and its reason where it is inconclusive."""
    if estimate is None or spread is None:
        gpus = " and head on ".join(gpu_name(gpu) for gpu in pair.other_gpus or ())
        known = across.references.get(pair.series.key)
        why = f"not enough reference measurements ({known} of {FEWEST})" if known is not None else "different GPUs"
        return Verdict.INCONCLUSIVE, f"{why}: base was measured on {gpus}; measure both commits on one GPU"
    verdict = judge_across_gpus(estimate, spread, pair.series.metric.better, least)
    if verdict is not Verdict.INCONCLUSIVE:
        return verdict, None
    if estimate.ci_low <= 0 <= estimate.ci_high:
        return verdict, "within GPU-to-GPU spread"
    if spread.q_value > SIGNIFICANT_Q:
        return verdict, "beyond GPU-to-GPU spread, but not significant among all series"
    return verdict, "beyond GPU-to-GPU spread, but possibly below the threshold"


def _verdict(
    pair: Pair, estimate: Estimate | None, verdict: Verdict, drift: MachineDrift | None
) -> tuple[Verdict, str | None]:
    """The verdict of the numbers, unless there is a reason against it; then the reason too."""
    base, head = pair.base, pair.head
    if not head.runs:
        is_invalid = _fails(pair) and head.status not in {None, Status.UNAVAILABLE}
        return (Verdict.INVALID if is_invalid else Verdict.MISSING), _why_missing(head, "head")
    if not base.runs:
        return Verdict.MISSING, _why_missing(base, "base")
    if estimate is None:
        return Verdict.INCONCLUSIVE, NO_RATIO
    if pair.is_one_measurement:
        skipped = head if head.status is Status.UNCHANGED else base
        return verdict, no_number(Status.UNCHANGED, skipped.reason)
    changed = verdict in CHANGED and pair.series.metric.follows_machine
    if changed and drift is not None and may_explain(drift, estimate.change):
        canaries = ", ".join(f"canary {canary.workload} {change_text(canary.change)}" for canary in drift.canaries)
        return Verdict.INCONCLUSIVE, f"the machine moved: {canaries}"
    return verdict, None


def _fails(pair: Pair) -> bool:
    """Whether head was measured and has no number, where base has one: a failure at base too is not new."""
    expected = pair.head.status not in {None, Status.UNCHANGED} or (pair.head.status is None and pair.is_complete)
    return expected and bool(pair.base.runs) and not pair.head.runs


def _why_missing(side: Side, name: str) -> str:
    if side.status is Status.UNCHANGED:
        return no_number(side.status, side.reason)
    return side.reason or f"not measured at {name}"
