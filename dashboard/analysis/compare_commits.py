"""Comparison of two commits, series by series: the rows of `warpwatch check`, of the gate, the API and pages.

Canaries and baselines measured in the same runs are controls: no commit of the project changes them, so a change that
they share on a machine is the machine's, and is subtracted from every other series there (machine_drift.py).
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from ..model.comparison import (
    ComparedBy,
    Comparison,
    ComparisonRow,
    CrossGpuChange,
    Estimate,
    MachineDrift,
)
from ..model.history import no_number
from ..model.naming import gpu_name, kernel_of
from ..model.quantities import change as change_text
from ..model.schema import commit_schema, series_schema
from ..model.series import Commit, Series, Status, Workloads, workload_of
from ..model.thresholds import Limits, LimitsOf
from ..model.verdict import Verdict
from ..statistics.comparison import FAMILY_ERROR, RunValue, compare, compare_exact, family_verdicts, level
from ..statistics.cross_gpu import cross_gpu_changes
from ..statistics.noise import Noise
from ..statistics.power import family_level, required_runs
from ..store import queries
from ..store.engine import Store
from ..store.queries.comparison_pairs import Pair, Side
from .machine_drift import level_ratio, machine_drifts, may_explain, raw_change, rivals_shift
from .noise import HistoryNoises, rerun_noises

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
_Gpus = tuple[str, str, tuple[str, str]]  # machine, environment, and the two GPUs


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
    rows, drifts = compare_pairs(
        found, threshold=threshold, limits=limits, family_error=family_error, workloads=workloads
    )
    return commit_comparison(project, base, head, rows, drifts, threshold=threshold, policy=policy)


def commit_comparison(
    project: str,
    base: Commit,
    head: Commit,
    rows: tuple[ComparisonRow, ...],
    drifts: tuple[MachineDrift, ...],
    *,
    threshold: float,
    policy: str | None = None,
) -> Comparison:
    """The comparison of two commits with these rows."""
    return Comparison(
        project=project,
        by=ComparedBy.COMMIT,
        base=commit_schema(base),
        head=commit_schema(head),
        base_name=None,
        head_name=None,
        threshold=threshold,
        policy=policy,
        drifts=drifts,
        notes=(),
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
) -> tuple[tuple[ComparisonRow, ...], tuple[MachineDrift, ...]]:
    """The rows of a comparison of two commits, and how their machines moved in between."""
    uniform = Limits(threshold=threshold)
    reruns = rerun_noises(found)
    drifts = machine_drifts(found, _canary_estimates(found, threshold, reruns))
    drift_of = {drift.machine: drift for drift in drifts}
    compared = [pair for pair in found if pair.series.is_ours and _has_record(pair)]
    shared = {machine: drift.change for machine, drift in drift_of.items()}
    noises = HistoryNoises(found, shared, rivals_shift(found))
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
    cross_gpu = _cross_gpu_changes(found)
    rows = [
        _row(pair, estimate, verdict, limit, drift_of.get(pair.series.machine), rivals, cross_gpu, workloads)
        for pair, estimate, verdict, limit in zip(compared, estimates, verdicts, limit_of, strict=True)
    ]
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
    across = row.cross_gpu if row.cross_gpu is not None and row.cross_gpu.is_significant else None
    moved = row.estimate or across
    return _ORDER[Verdict.INVALID if row.fails else row.verdict], -abs(moved.change) if moved else 0.0


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
    cross_gpu: CrossGpuChange | None = None,
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
        cross_gpu=cross_gpu,
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
    if pair.other_cards:
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
        same_session=pair.beside,
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


def _cross_gpu_changes(found: Sequence[Pair]) -> Mapping[str, CrossGpuChange]:
    """By the key of the series: latencies of ours, where enough baselines of the same two GPUs exist."""
    kernels: dict[_Gpus, dict[str, float]] = defaultdict(dict)
    baselines: dict[_Gpus, list[float]] = defaultdict(list)
    for pair in found:
        if pair.other_cards is None or pair.series.metric.noise_family != "latency":
            continue
        ratio = level_ratio(pair)
        if ratio is None:
            continue
        gpus = (pair.series.machine, pair.series.environment, pair.other_cards)
        if pair.series.is_ours:
            kernels[gpus][pair.series.key] = math.log(ratio)
        elif pair.series.is_baseline:
            baselines[gpus].append(math.log(ratio))
    changes: dict[str, CrossGpuChange] = {}
    for gpus, ratios in kernels.items():
        changes |= zip(ratios, cross_gpu_changes(list(ratios.values()), baselines[gpus]), strict=False)
    return changes


def _row(
    pair: Pair,
    estimate: Estimate | None,
    verdict: Verdict,
    limits: Limits,
    drift: MachineDrift | None,
    rivals: Mapping[_Case, float],
    cross_gpu: Mapping[str, CrossGpuChange],
    workloads: Workloads,
) -> ComparisonRow:
    verdict, reason = _verdict(pair, estimate, verdict, drift)
    return comparison_row(
        pair.series,
        workloads=workloads,
        limits=limits,
        verdict=verdict,
        reason=reason,
        base=side_level(pair.base),
        head=side_level(pair.head),
        estimate=estimate,
        control_change=rivals.get(_case(pair.series)),
        cross_gpu=cross_gpu.get(pair.series.key),
        fails=_fails(pair),
    )


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
    if pair.other_cards:
        on = " and head on ".join(gpu_name(card) for card in pair.other_cards)
        return Verdict.INCONCLUSIVE, f"another card: base was measured on {on}"
    if estimate is None:
        return Verdict.INCONCLUSIVE, NO_RATIO
    if pair.is_one_measurement:
        skipped = head if head.status is Status.UNCHANGED else base
        return verdict, no_number(Status.UNCHANGED, skipped.reason)
    changed = verdict in {Verdict.REGRESSED, Verdict.IMPROVED} and pair.series.metric.follows_machine
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
