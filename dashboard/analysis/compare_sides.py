"""Comparisons as the compare page and `warpwatch compare` show them: of commits, machines or implementations."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import geometric_mean

from ..model.comparison import ComparedBy, Comparison, ComparisonRow, Estimate
from ..model.metric import Metric
from ..model.naming import kernel_name
from ..model.overview import OverviewEntry, OverviewRow
from ..model.schema import CommitSchema
from ..model.series import Commit, Series, Status, Workloads, is_main
from ..model.thresholds import LimitsOf, StatedLimits
from ..model.verdict import Verdict
from ..statistics.comparison import FAMILY_ERROR, compare, compare_exact, family_verdicts
from ..statistics.distributions import NORMAL_95, critical_value
from ..statistics.noise import Noise
from ..store import queries
from ..store.cache import ROW_BYTES
from ..store.engine import Store, cached
from ..store.queries.comparison_pairs import Pair, Side
from .compare_commits import (
    NO_RATIO,
    commit_comparison,
    compare_pairs,
    comparison_row,
    rank,
    side_level,
    with_runs_needed,
)
from .comparison_columns import ComparisonColumns, comparison_columns
from .gpu_sessions import compare_across_gpus, pooled_noise
from .noise import HistoryNoises, rerun_noises
from .thresholds import ThresholdResolver, step_thresholds, threshold_resolver

_ENOUGH_TO_SHARE = 3  # rows of one reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedReason:
    """One reason for which several rows are inconclusive."""

    reason: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A comparison with the series as records and the values of its filters.

    Of machines and implementations latency comes before all other metrics.
    """

    comparison: Comparison
    series: Mapping[str, Series]  # by key, base's too
    stated: StatedLimits | None  # the rules that were applied; None: the dashboard's threshold alone
    kernels: tuple[str, ...]
    machines: tuple[str, ...]
    dtypes: tuple[str, ...]
    metrics: tuple[Metric, ...]
    are_models: bool = False  # two machines with different GPUs (or CPUs): verdicts by their levels alone

    @property
    def rows(self) -> tuple[ComparisonRow, ...]:
        return self.comparison.rows

    @cached_property
    def columns(self) -> ComparisonColumns:
        return comparison_columns(self.rows)

    @cached_property
    def shared_reasons(self) -> tuple[SharedReason, ...]:
        """Reasons for which several rows are inconclusive, the most frequent first."""
        by_reason: dict[str, list[ComparisonRow]] = {}
        for row in self.rows:
            if row.verdict is Verdict.INCONCLUSIVE and row.reason:
                by_reason.setdefault(row.reason, []).append(row)
        shared = [
            SharedReason(reason=reason, rows=len(rows))
            for reason, rows in by_reason.items()
            if len(rows) >= _ENOUGH_TO_SHARE
        ]
        return tuple(sorted(shared, key=lambda reason: -reason.rows))


def _bytes(compared: Compared) -> int:
    return ROW_BYTES * len(compared.rows) + compared.columns.nbytes


@cached(size=_bytes)
def compare_commits(
    store: Store, project: str, base: Commit, head: Commit, *, threshold: float, all_metrics: bool = False
) -> Compared:
    """As `warpwatch check`, by the project's thresholds; `threshold` is the default."""
    limits = threshold_resolver(store, project, threshold=threshold)
    pairs = queries.pairs(store, project, base.hash, head.hash, all_metrics=all_metrics)
    workloads = queries.project_workloads(store, project)
    across = compare_across_gpus(store, project, pairs, workloads)
    rows, drifts = compare_pairs(
        pairs,
        threshold=limits.threshold,
        limits=limits.limits,
        workloads=workloads,
        across=across,
        pooled=lambda machine: pooled_noise(store, project, machine, workloads),
    )
    compared = commit_comparison(
        project, base, head, rows, drifts, threshold=limits.threshold, policy=limits.policy, notes=across.notes
    )
    return _compared(compared, pairs, limits.stated)


@cached(size=_bytes)
def compare_machines(
    store: Store, project: str, commits: tuple[Commit, Commit], base: str, head: str, *, threshold: float
) -> Compared:
    """Every judged series of one machine against the same of the other, each at its commit, baselines and canaries too.

    Two models of GPU always differ by more than noise, so their levels are compared without a test.
    """
    limits = threshold_resolver(store, project, threshold=threshold)
    pairs = queries.pairs(store, project, *(commit.hash for commit in commits))
    at_base = {_work(pair.series): pair for pair in pairs if pair.series.machine == base}
    couples = [
        (other, pair)
        for pair in pairs
        if pair.series.machine == head and (other := at_base.get(_work(pair.series))) is not None
    ]
    workloads = queries.project_workloads(store, project)
    rows = _rows(pairs, couples, limits.limits, workloads, is_one_run=False)
    models = {each.name: each.gpu or each.cpu for each in queries.machines(store, project)}
    are_models = None not in (known := (models.get(base), models.get(head))) and known[0] != known[1]
    if are_models:
        rows = _sorted(map(_by_level, rows))
    comparison = _of_two_sides(project, ComparedBy.MACHINE, commits, (base, head), limits, rows)
    return replace(_compared(comparison, pairs, limits.stated), are_models=are_models)


@cached(size=_bytes)
def compare_implementations(
    store: Store, project: str, commit: Commit, base: str, head: str, *, threshold: float
) -> Compared:
    """Every judged series of one implementation against that of another, of the same case, machine and runs.

    An empty `base` is every baseline, an empty `head` every implementation of ours.
    """
    limits = threshold_resolver(store, project, threshold=threshold)
    pairs = [
        pair
        for pair in queries.pairs(store, project, commit.hash, commit.hash)
        if pair.series.implementation is not None and not pair.series.is_control
    ]
    cases: dict[tuple[object, ...], tuple[list[Pair], list[Pair]]] = {}
    for pair in pairs:
        own = pair.series
        case = (own.benchmark, own.case, own.machine, own.environment)
        if own.implementation == base or (not base and own.is_baseline):
            cases.setdefault(case, ([], []))[0].append(pair)
        if own.implementation == head or (not head and own.is_ours):
            cases.setdefault(case, ([], []))[1].append(pair)
    couples = [(rival, ours) for rivals, all_ours in cases.values() for ours in all_ours for rival in rivals]
    couples = [(rival, ours) for rival, ours in couples if rival is not ours]
    workloads = queries.project_workloads(store, project)
    rows = _rows(pairs, couples, limits.limits, workloads, is_one_run=True)
    comparison = _of_two_sides(project, ComparedBy.IMPLEMENTATION, (commit, commit), (base, head), limits, rows)
    return _compared(comparison, pairs, limits.stated)


def _of_two_sides(
    project: str,
    by: ComparedBy,
    commits: tuple[Commit, Commit],
    names: tuple[str, str],
    limits: ThresholdResolver,
    rows: tuple[ComparisonRow, ...],
) -> Comparison:
    return Comparison(
        project=project,
        by=by,
        base=CommitSchema.of(commits[0]),
        head=CommitSchema.of(commits[1]),
        base_name=names[0],
        head_name=names[1],
        threshold=limits.threshold,
        policy=limits.policy,
        drifts=(),
        notes=(),
        fault=None,
        rows=rows,
    )


def _by_level(row: ComparisonRow) -> ComparisonRow:
    """The row with the verdict of its levels alone."""
    if row.estimate is None or row.verdict is Verdict.MISSING:
        return row
    change, least = row.estimate.change, row.min_relative_change
    if least is None or abs(change) < least:
        return row.model_copy(update={"verdict": Verdict.UNCHANGED})
    return row.model_copy(update={"verdict": Verdict.REGRESSED if row.is_worse else Verdict.IMPROVED})


def _work(series: Series) -> tuple[object, ...]:
    return series.benchmark, series.parameters, series.environment


def _rows(
    pairs: Sequence[Pair],
    couples: Iterable[tuple[Pair, Pair]],
    limits: LimitsOf,
    workloads: Workloads,
    *,
    is_one_run: bool,
) -> tuple[ComparisonRow, ...]:
    """Rows of couples of series, as one family; the noise is the larger one of both series."""
    known = [
        (base, head)
        for base, head in couples
        if any(side.status not in {None, Status.UNAVAILABLE} for side in (base.base, head.head))
    ]
    histories, reruns = HistoryNoises(pairs), rerun_noises(pairs)
    limit_of = [replace(limits(head.series), blocks=True) for _, head in known]  # a difference blocks no merge
    smallest = [
        limit.min_relative_change(side_level(base.base), side_level(head.head))
        for limit, (base, head) in zip(limit_of, known, strict=True)
    ]
    estimates = []
    for (base, head), least in zip(known, smallest, strict=True):
        noise = _noisier(histories.of(base), histories.of(head))
        rerun = _noisier(reruns.get(base.series.key), reruns.get(head.series.key))
        same_session = is_one_run and base.same_session and head.same_session
        estimates.append(_estimate(base, head, noise, rerun, least, same_session=same_session))
    verdicts = family_verdicts(estimates, [head.series.metric.better for _, head in known], threshold=smallest)
    estimates = with_runs_needed(estimates, verdicts, smallest, FAMILY_ERROR)
    rows = []
    for (base, head), estimate, tested, limit in zip(known, estimates, verdicts, limit_of, strict=True):
        verdict, reason = _verdict(base, head, estimate, tested)
        rows.append(
            comparison_row(
                head.series,
                base_series=base.series,
                workloads=workloads,
                limits=limit,
                verdict=verdict,
                reason=reason,
                base=side_level(base.base),
                head=side_level(head.head),
                estimate=estimate,
            )
        )
    return _sorted(rows)


def _sorted(rows: Iterable[ComparisonRow]) -> tuple[ComparisonRow, ...]:
    """Latency first, then by verdict and size."""
    return tuple(sorted(rows, key=lambda row: (not row.series.metric_record.is_latency, *rank(row))))


def _estimate(
    base: Pair, head: Pair, noise: Noise | None, rerun: Noise | None, threshold: float, *, same_session: bool
) -> Estimate | None:
    runs, others = base.base.runs, head.head.runs
    if head.series.metric.is_exact and (exact := compare_exact(runs, others)) is not None:
        return exact
    return compare(runs, others, history_noise=noise, threshold=threshold, rerun_noise=rerun, same_session=same_session)


def _noisier(*noises: Noise | None) -> Noise | None:
    """The noise with the wider interval: scale times critical value."""
    known = [noise for noise in noises if noise is not None]
    width = {id(n): n.scale * (critical_value(0.05, n.df) if n.df else NORMAL_95) for n in known}
    return max(known, key=lambda noise: width[id(noise)], default=None)


def _verdict(base: Pair, head: Pair, estimate: Estimate | None, verdict: Verdict) -> tuple[Verdict, str | None]:
    reason = None
    for name, side in (("base", base.base), ("head", head.head)):
        if not side.runs:
            verdict, reason = Verdict.MISSING, _why_missing(side, name)
    if reason is None and estimate is None:
        verdict, reason = Verdict.INCONCLUSIVE, NO_RATIO
    return verdict, reason


def _why_missing(side: Side, name: str) -> str:
    status = f"{side.status.value}: {side.reason}" if side.status and side.reason else None
    return status or f"not measured at {name}"


def _compared(comparison: Comparison, pairs: Iterable[Pair], stated: StatedLimits | None) -> Compared:
    series = {pair.series.key: pair.series for pair in pairs}
    rows = comparison.rows
    metrics = {series[row.series.key].metric for row in rows}
    return Compared(
        comparison=comparison,
        series=series,
        stated=stated,
        kernels=tuple(sorted({row.kernel for row in rows})),
        machines=tuple(sorted({row.series.machine for row in rows})),
        dtypes=tuple(sorted({row.dtype for row in rows if row.dtype})),
        metrics=tuple(sorted(metrics, key=lambda metric: (metric.label, metric.unit))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelStanding:
    """One kernel on one machine against the best baseline of each workload, by the main implementation."""

    kernel: str
    machine: str
    speedup: float  # geometric mean over the workloads
    least: float
    most: float
    ahead: int  # workloads faster than every baseline
    workloads: int
    baselines: tuple[str, ...]  # the fastest ones, the most frequent first
    in_means: bool


def leaderboard(store: Store, project: str, entries: Iterable[OverviewEntry]) -> tuple[KernelStanding, ...]:
    """The kernels with a baseline in the same run, the slowest against it first; those out of means last."""
    workloads, limits = queries.project_workloads(store, project), step_thresholds(store, project).limits
    by_kernel: dict[tuple[str, str], list[OverviewRow]] = defaultdict(list)
    for entry in entries:
        series = entry.row.series
        if entry.row.baseline is not None and series.metric.is_latency and is_main(series, workloads):
            by_kernel[kernel_name(series.benchmark, entry.row.operator), series.machine].append(entry.row)
    found = []
    for (kernel, machine), rows in by_kernel.items():
        best = [row.baseline for row in rows if row.baseline is not None]
        ratios = [each.ratio for each in best]
        found.append(
            KernelStanding(
                kernel=kernel,
                machine=machine,
                speedup=geometric_mean(ratios),
                least=min(ratios),
                most=max(ratios),
                ahead=sum(ratio > 1 for ratio in ratios),
                workloads=len(rows),
                baselines=tuple(name for name, _ in Counter(each.implementation for each in best).most_common()),
                in_means=limits(rows[0].series).in_means,
            )
        )
    return tuple(sorted(found, key=lambda each: (not each.in_means, each.speedup)))
