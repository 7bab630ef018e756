"""The release report: a comparison of two commits, summarised by kernel, with the standing against the baselines."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, geometric_mean, median
from typing import ClassVar

from ..model.comparison import ComparisonRow
from ..model.metric import Better
from ..model.naming import natural
from ..model.schema import CommitSchema, Schema
from ..model.series import Commit, is_main
from ..model.thresholds import LimitsOf
from ..model.verdict import CHANGED, Verdict
from ..store import Store, cached, queries
from ..store.notes import RELEASES, annotations
from ..store.queries.comparison_pairs import Pair, Side
from .compare_sides import Compared, compare_commits
from .thresholds import threshold_resolver


class LatencyChange(Schema):
    """Latency of a kernel on a machine, head against base; of all kernels where `kernel` is null.

    Means are geometric, over workloads of the project's main implementation.
    """

    machine: str
    kernel: str | None
    in_means: bool
    """Whether the machine's mean counts the kernel; a policy may exclude kernels that exist for teaching."""
    workloads: int
    """Measured at both commits."""
    change: float | None
    """Mean relative change of latency, the drift of the machine and the effect of another GPU taken off."""
    faster: int
    slower: int
    unchanged: int
    inconclusive: int
    new: int
    """Workloads measured at head only."""
    removed: int
    """Workloads measured at base only."""
    speedup_base: float | None
    """Mean speedup over the best baseline of the same commit, at base; over the workloads that both commits measured,
    if there are any."""
    speedup_head: float | None

    @property
    def is_new(self) -> bool:
        """Whether the kernel was not measured at base."""
        return self.new > 0 and not self.workloads and not self.removed

    @property
    def is_removed(self) -> bool:
        """Whether the kernel was not measured at head."""
        return self.removed > 0 and not self.workloads and not self.new


class OtherMetricChange(Schema):
    """Series of one metric other than latency that changed, of one kernel on one machine."""

    machine: str
    kernel: str
    metric: str
    label: str
    unit: str
    better: Better
    series: int
    change: float | None
    """Mean relative change of these series; null where a value was or became 0."""
    is_worse: bool


class ReleaseReport(Schema):
    """Two releases compared."""

    csv_rows: ClassVar[str] = "kernels"

    project: str
    base: CommitSchema
    head: CommitSchema
    base_name: str | None
    """Its tag; null without one."""
    head_name: str | None
    has_kernels: bool
    """Whether the project's series name kernels and workloads; otherwise `kernel` is a module and a workload a
    benchmark."""
    metric: str
    """Label of the metric of `machines` and `kernels`: latency where it was measured, else time."""
    machines: tuple[LatencyChange, ...]
    kernels: tuple[LatencyChange, ...]
    """The largest improvement first; new ones, then removed ones, last."""
    others: tuple[OtherMetricChange, ...]
    """Regressions first."""
    notes: tuple[str, ...]
    """Remarks on the comparison as a whole."""

    @property
    def kernel_word(self) -> str:
        """What the rows are: "kernel" or "module"."""
        return "kernel" if self.has_kernels else "module"

    @property
    def workload_word(self) -> str:
        """What a row summarises: "workload" or "benchmark"."""
        return "workload" if self.has_kernels else "benchmark"


_Case = tuple[str, str, str | None, str]  # machine, environment, workload, suite
_Speedups = Mapping[str, tuple[float | None, float | None]]  # at base and at head; None without a baseline there


@cached()
def release_report(store: Store, project: str, base: Commit, head: Commit, *, threshold: float) -> ReleaseReport:
    """`threshold` is the default, as for `compare_commits`."""
    compared = compare_commits(store, project, base, head, threshold=threshold)
    workloads = queries.project_workloads(store, project)
    limits = threshold_resolver(store, project, threshold=compared.comparison.threshold).limits
    speedups = _speedups(queries.pairs(store, project, base.hash, head.hash))
    has_latency = any(row.series.metric_record.is_latency for row in compared.rows)
    rows = [
        row
        for row in compared.rows
        if (row.series.metric_record.is_latency if has_latency else row.series.metric_record.is_time)
        and is_main(compared.series[row.series.key], workloads)
    ]
    by_kernel: dict[tuple[str, str], list[ComparisonRow]] = defaultdict(list)
    for row in rows:
        by_kernel[row.series.machine, row.kernel].append(row)
    kernels = [
        _latency_change(machine, kernel, group, compared, limits, speedups)
        for (machine, kernel), group in by_kernel.items()
    ]
    counted = {(each.machine, each.kernel) for each in kernels if each.in_means}
    machines = [
        _latency_change(
            machine,
            None,
            [row for row in rows if (row.series.machine, row.kernel) in counted and row.series.machine == machine],
            compared,
            limits,
            speedups,
        )
        for machine in sorted({machine for machine, _ in by_kernel})
    ]
    names = tag_names(store, project)
    return ReleaseReport(
        project=project,
        base=compared.comparison.base,
        head=compared.comparison.head,
        base_name=names.get(base.hash),
        head_name=names.get(head.hash),
        has_kernels=bool(workloads),
        metric="latency" if has_latency else "time",
        machines=tuple(machines),
        kernels=tuple(sorted(kernels, key=_order)),
        others=_others(compared.rows, rows),
        notes=compared.comparison.notes,
    )


def tag_names(store: Store, project: str) -> dict[str, str]:
    """The newest tag of each tagged commit with results, by hash, in the order of commits."""
    return {note.commit: note.text for note in annotations(store, project) if note.author == RELEASES}


def _latency_change(
    machine: str,
    kernel: str | None,
    rows: Sequence[ComparisonRow],
    compared: Compared,
    limits: LimitsOf,
    speedups: _Speedups,
) -> LatencyChange:
    changes = [math.log1p(row.estimate.change) for row in rows if row.estimate is not None and row.estimate.change > -1]
    both = [row for row in rows if row.base is not None and row.head is not None]
    verdicts = Counter(row.verdict for row in both)
    ratios = [speedups.get(row.series.key, (None, None)) for row in rows]
    common = [pair for pair in ratios if None not in pair] or ratios
    return LatencyChange(
        machine=machine,
        kernel=kernel,
        in_means=any(limits(compared.series[row.series.key]).in_means for row in rows),
        workloads=len(both),
        change=math.expm1(fmean(changes)) if changes else None,
        faster=verdicts[Verdict.IMPROVED],
        slower=verdicts[Verdict.REGRESSED],
        unchanged=verdicts[Verdict.UNCHANGED],
        inconclusive=len(both) - sum(verdicts[each] for each in (*CHANGED, Verdict.UNCHANGED)),
        new=sum(row.base is None and row.head is not None for row in rows),
        removed=sum(row.head is None and row.base is not None for row in rows),
        speedup_base=_geometric_mean(at_base for at_base, _ in common),
        speedup_head=_geometric_mean(at_head for _, at_head in common),
    )


def _order(change: LatencyChange) -> tuple[object, ...]:
    is_known = change.change is not None
    return change.machine, not is_known, change.is_removed, change.change or 0.0, natural(change.kernel or "")


def _speedups(pairs: Iterable[Pair]) -> _Speedups:
    """Speedup of ours over the best baseline of the same commit, at base and at head, by key of the series."""
    ours: dict[_Case, list[Pair]] = defaultdict(list)
    best: dict[_Case, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for pair in pairs:
        series = pair.series
        if not series.metric.is_latency or series.is_control:
            continue
        case = (series.machine, series.environment, series.workload, series.suite)
        if series.is_ours:
            ours[case].append(pair)
            continue
        for side, values in zip((pair.base, pair.head), best[case], strict=True):
            if (value := _level(side)) is not None:
                values.append(value)
    found = {}
    for case, mine in ours.items():
        at_base, at_head = (min(values, default=None) for values in best[case])
        for pair in mine:
            found[pair.series.key] = _ratio(at_base, _level(pair.base)), _ratio(at_head, _level(pair.head))
    return found


def _level(side: Side) -> float | None:
    return median(run.value for run in side.runs) if side.runs else None


def _ratio(baseline: float | None, own: float | None) -> float | None:
    return baseline / own if baseline and own else None


def _geometric_mean(ratios: Iterable[float | None]) -> float | None:
    known = [ratio for ratio in ratios if ratio]
    return geometric_mean(known) if known else None


def _others(rows: Iterable[ComparisonRow], latencies: Iterable[ComparisonRow]) -> tuple[OtherMetricChange, ...]:
    """Changed series of other metrics, by kernel."""
    metrics = {row.series.metric for row in latencies}
    groups: dict[tuple[str, str, str, str, bool], list[ComparisonRow]] = defaultdict(list)
    for row in rows:
        if row.verdict in CHANGED and row.series.metric not in metrics:
            is_worse = row.verdict is Verdict.REGRESSED
            groups[row.series.machine, row.kernel, row.series.metric, row.series.unit, is_worse].append(row)
    found = []
    for (machine, kernel, metric, unit, is_worse), group in groups.items():
        record = group[0].series.metric_record
        found.append(
            OtherMetricChange(
                machine=machine,
                kernel=kernel,
                metric=metric,
                label=record.label,
                unit=unit,
                better=record.better,
                series=len(group),
                change=_mean_change(group),
                is_worse=is_worse,
            )
        )
    return tuple(sorted(found, key=lambda each: (not each.is_worse, each.machine, each.kernel, each.metric)))


def _mean_change(rows: Iterable[ComparisonRow]) -> float | None:
    ratio = _geometric_mean(_ratio(row.head, row.base) for row in rows)
    return ratio - 1 if ratio is not None else None
