"""Filters of a comparison's rows, and the summary of the matching rows."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..model.comparison import ComparisonRow
from ..model.metric import Metric
from ..model.verdict import CHANGED, Verdict

QUIET = frozenset({Verdict.UNCHANGED, Verdict.MISSING})  # hidden by default, but counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonFilter:
    """Filters from the URL; empty ones match every row."""

    kernel: str = ""
    machine: str = ""
    dtype: str = ""
    metric: str = ""
    min_change: float = 0.0  # relative
    query: str = ""
    found: frozenset[str] | None = None  # keys of the series that match `query`; None without one
    verdict: str = ""  # overrides `show_all`
    show_all: bool = False  # also QUIET verdicts

    def matches(self, row: ComparisonRow) -> bool:
        """Whether the row passes all filters except the verdict."""
        series = row.series
        return (
            (not self.kernel or row.kernel == self.kernel)
            and (not self.machine or series.machine == self.machine)
            and (not self.dtype or row.dtype == self.dtype)
            and (not self.metric or series.metric == self.metric)
            and (not self.min_change or (row.estimate is not None and _size(row.estimate.change) >= self.min_change))
            and (self.found is None or any(each.key in self.found for each in (series, row.base_series) if each))
        )

    @property
    def is_active(self) -> bool:
        """Whether a filter other than the verdict is set."""
        return any((self.kernel, self.machine, self.dtype, self.metric, self.min_change, self.query))

    def displays(self, verdict: Verdict) -> bool:
        """Whether matching rows with this verdict are displayed."""
        if self.verdict:
            return verdict.value == self.verdict
        return self.show_all or verdict not in QUIET


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """Geometric mean of the changes of one metric."""

    metric: Metric
    change: float
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelGroup:
    """The matching rows of one kernel: counts by verdict, and the mean change of its latency (else of its times)."""

    kernel: str
    counts: tuple[tuple[Verdict, int], ...]
    mean: Mean | None

    @property
    def is_quiet(self) -> bool:
        """Whether no row changed."""
        return not any(verdict in CHANGED for verdict, _ in self.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredComparison:
    """Displayed rows, and the summary of all matching ones."""

    rows: tuple[ComparisonRow, ...]  # displayed
    means: tuple[Mean, ...]  # of the matching rows, displayed or not
    matching: tuple[tuple[Verdict, int], ...]
    hidden: tuple[tuple[Verdict, int], ...]
    all_matching: tuple[ComparisonRow, ...]

    @property
    def groups(self) -> tuple[KernelGroup, ...]:
        """The matching rows by kernel: those with changes first, the largest mean change first."""
        by_kernel: dict[str, list[ComparisonRow]] = {}
        for row in self.all_matching:
            by_kernel.setdefault(row.kernel, []).append(row)
        groups = [_group(kernel, rows) for kernel, rows in by_kernel.items()]

        def order(group: KernelGroup) -> tuple[bool, float, str]:
            return group.is_quiet, -_size(group.mean.change if group.mean is not None else 0.0), group.kernel

        return tuple(sorted(groups, key=order))


def apply(comparison_filter: ComparisonFilter, rows: Sequence[ComparisonRow]) -> FilteredComparison:
    """Filter the rows, in their order."""
    matching = [row for row in rows if comparison_filter.matches(row)] if comparison_filter.is_active else rows
    counts = _counts(matching)
    verdicts = {verdict for verdict in Verdict if comparison_filter.displays(verdict)}
    return FilteredComparison(
        rows=tuple(row for row in matching if row.verdict in verdicts),
        means=_means(matching),
        matching=counts,
        hidden=tuple((verdict, count) for verdict, count in counts if verdict not in verdicts),
        all_matching=tuple(matching),
    )


def _group(kernel: str, rows: Sequence[ComparisonRow]) -> KernelGroup:
    times = [row for row in rows if row.series.metric_record.is_latency]
    times = times or [row for row in rows if row.series.metric_record.is_time]
    return KernelGroup(
        kernel=kernel,
        counts=_counts(rows),
        mean=next(iter(_means(times)), None),
    )


def _counts(rows: Sequence[ComparisonRow]) -> tuple[tuple[Verdict, int], ...]:
    """Rows of each verdict that has any."""
    verdicts = [row.verdict for row in rows]  # counted in C; a Counter hashes each enum in Python
    return tuple((verdict, number) for verdict in Verdict if (number := verdicts.count(verdict)))


def _means(rows: Iterable[ComparisonRow]) -> tuple[Mean, ...]:
    """Mean of each metric with ratios: latency first, then other times, then by the number of rows."""
    logs: dict[tuple[str, str], list[float]] = {}
    metrics: dict[tuple[str, str], Metric] = {}
    for row in rows:
        if row.estimate is not None and row.estimate.change > -1 and row.base:
            key = row.series.metric, row.series.unit
            if key not in logs:
                logs[key], metrics[key] = [], row.series.metric_record
            logs[key].append(math.log1p(row.estimate.change))
    means = [
        Mean(metric=metrics[key], change=math.expm1(sum(changes) / len(changes)), rows=len(changes))
        for key, changes in logs.items()
    ]
    return tuple(sorted(means, key=lambda mean: (not mean.metric.is_latency, not mean.metric.is_time, -mean.rows)))


def _size(change: float) -> float:
    """Symmetric size: a halving counts as a doubling."""
    return math.expm1(abs(math.log1p(change))) if change > -1 else math.inf
