"""Filters of a comparison's rows, and the summary of the matching rows."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..analysis.comparison_columns import VERDICTS, ComparisonColumns
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
    all_matching: ComparisonColumns

    @property
    def groups(self) -> tuple[KernelGroup, ...]:
        """The matching rows by kernel: those with changes first, the largest mean change first."""
        every = self.all_matching
        codes = np.unique(every.kernel).tolist()
        groups = [_group(every.kernels[code], every.take(every.kernel == code)) for code in codes]

        def key(group: KernelGroup) -> tuple[bool, float, str]:
            return group.is_quiet, -_size(group.mean.change if group.mean is not None else 0.0), group.kernel

        return tuple(sorted(groups, key=key))


def apply(
    comparison_filter: ComparisonFilter, rows: Sequence[ComparisonRow], columns: ComparisonColumns
) -> FilteredComparison:
    """Filter the rows, in their order. `columns`: of all rows."""
    if comparison_filter.is_active:
        chosen = [number for number, row in enumerate(rows) if comparison_filter.matches(row)]
        rows, columns = [rows[number] for number in chosen], columns.take(np.array(chosen, dtype=np.intp))
    counts = _counts(columns)
    verdicts = {verdict for verdict in Verdict if comparison_filter.displays(verdict)}
    displayed = np.isin(columns.verdict, [code for code, verdict in enumerate(VERDICTS) if verdict in verdicts])
    return FilteredComparison(
        rows=tuple(itertools.compress(rows, displayed.tolist())),
        means=_means(columns),
        matching=counts,
        hidden=tuple((verdict, count) for verdict, count in counts if verdict not in verdicts),
        all_matching=columns,
    )


def _group(kernel: str, rows: ComparisonColumns) -> KernelGroup:
    times = rows.take(np.array([metric.is_latency for metric in rows.metrics])[rows.metric])
    times = times if len(times) else rows.take(np.array([metric.is_time for metric in rows.metrics])[rows.metric])
    return KernelGroup(
        kernel=kernel,
        counts=_counts(rows),
        mean=next(iter(_means(times)), None),
    )


def _counts(rows: ComparisonColumns) -> tuple[tuple[Verdict, int], ...]:
    numbers = np.bincount(rows.verdict, minlength=len(VERDICTS)).tolist()
    return tuple((verdict, number) for verdict, number in zip(VERDICTS, numbers, strict=True) if number)


def _means(rows: ComparisonColumns) -> tuple[Mean, ...]:
    """Mean of each metric with ratios: latency first, then other times, then by the number of rows."""
    has_ratio = rows.has_base & ~np.isnan(rows.log_change)
    metric = rows.metric[has_ratio]
    numbers, sums = np.bincount(metric), np.bincount(metric, weights=rows.log_change[has_ratio])
    present, firsts = np.unique(metric, return_index=True)
    means = [
        Mean(metric=rows.metrics[code], change=math.expm1(sums[code] / numbers[code]), rows=int(numbers[code]))
        for code in present[np.argsort(firsts)].tolist()
    ]
    return tuple(sorted(means, key=lambda mean: (not mean.metric.is_latency, not mean.metric.is_time, -mean.rows)))


def _size(change: float) -> float:
    """Symmetric size: a halving counts as a doubling."""
    return math.expm1(abs(math.log1p(change))) if change > -1 else math.inf
