"""The rows of a comparison that a reader asked for, and their summary, which is of these rows alone."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..model.comparison import ComparisonRow
from ..model.metric import Metric
from ..model.verdict import Verdict

QUIET = frozenset({Verdict.UNCHANGED, Verdict.MISSING})  # counted, and shown when asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """What the reader narrows a comparison to; what is empty narrows nothing."""

    kernel: str = ""
    machine: str = ""
    dtype: str = ""
    metric: str = ""
    least: float = 0.0  # magnitude of the change, relative
    words: str = ""
    verdict: str = ""  # with one chosen, `is_whole` does not matter
    is_whole: bool = False  # whether what is quiet is shown too

    def keeps(self, row: ComparisonRow) -> bool:
        """Whether a row passes everything but the verdict."""
        series = row.series
        return (
            (not self.kernel or row.kernel == self.kernel)
            and (not self.machine or series.machine == self.machine)
            and (not self.dtype or row.dtype == self.dtype)
            and (not self.metric or series.metric == self.metric)
            and (not self.least or (row.estimate is not None and _size(row.estimate.change) >= self.least))
            and (not self.words or self._has_words(row))
        )

    @property
    def narrows(self) -> bool:
        """Whether some row may not pass."""
        return any((self.kernel, self.machine, self.dtype, self.metric, self.least, self.words))

    def shows(self, verdict: Verdict) -> bool:
        """Whether a row of this verdict that is kept is also on display."""
        if self.verdict:
            return verdict.value == self.verdict
        return self.is_whole or verdict not in QUIET

    def _has_words(self, row: ComparisonRow) -> bool:
        titles = " ".join(each.title for each in (row.series, row.base_series) if each is not None)
        searched = f"{row.kernel} {titles} {row.series.machine}".lower()
        return all(word in searched for word in self.words.lower().split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """The geometric mean of the changes of one metric."""

    metric: Metric
    change: float
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """What is on display, what it comes to, and what the filters left aside."""

    rows: tuple[ComparisonRow, ...]  # on display
    shown: tuple[tuple[Verdict, int], ...]  # of these rows
    means: tuple[Mean, ...]  # of these rows
    kept: tuple[tuple[Verdict, int], ...]  # of all that pass the filters but the verdict's
    hidden: tuple[tuple[Verdict, int], ...]  # of those, not on display


def narrow(rows: Sequence[ComparisonRow], by: Narrowing) -> Narrowed:
    """The rows in their order."""
    kept = [row for row in rows if by.keeps(row)] if by.narrows else rows
    counted = Counter([row.verdict for row in kept])
    told = tuple((verdict, counted[verdict]) for verdict in Verdict if counted[verdict])
    on_display = {verdict for verdict in Verdict if by.shows(verdict)}
    shown = tuple(row for row in kept if row.verdict in on_display)
    return Narrowed(
        rows=shown,
        shown=tuple((verdict, count) for verdict, count in told if verdict in on_display),
        means=_means(shown),
        kept=told,
        hidden=tuple((verdict, count) for verdict, count in told if verdict not in on_display),
    )


def _means(rows: Iterable[ComparisonRow]) -> tuple[Mean, ...]:
    """Of each metric that has a ratio, those with most rows first."""
    logs: dict[tuple[str, str], list[float]] = {}
    metrics: dict[tuple[str, str], Metric] = {}
    for row in rows:
        if row.estimate is not None and row.estimate.change > -1 and row.base:
            key = row.series.metric, row.series.unit
            if key not in logs:
                logs[key], metrics[key] = [], row.series.metric_record
            logs[key].append(math.log1p(row.estimate.change))
    found = [Mean(metric=metrics[m], change=math.expm1(sum(its) / len(its)), rows=len(its)) for m, its in logs.items()]
    return tuple(sorted(found, key=lambda mean: -mean.rows))


def _size(change: float) -> float:
    """Of a halving and of a doubling the same: how much the larger is more than the smaller."""
    return math.expm1(abs(math.log1p(change))) if change > -1 else math.inf
