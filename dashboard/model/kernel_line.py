"""Lines of the overview: one for each kernel on each machine, which opens into its workloads.

A line's state is the most urgent of its rows, if any is urgent, else the most frequent. Its numbers are those of the
first implementation, ours in CUDA if there are several: over the workloads, the geometric mean of ratios and changes,
the median of shares.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean, median
from urllib.parse import quote

from .changepoint import SeriesChange
from .metric import Metric
from .metric_change import ChangedSeries, MetricChanges, metric_changes
from .naming import kernel_name, name_in_module, natural
from .overview import OverviewEntry, OverviewRow, RowState, trend_state
from .series import Commit, Series, Status
from .verdict import Verdict

URGENT = (RowState.REGRESSED, RowState.STOPPED, RowState.INVALID, RowState.IMPROVED)
_OURS = "warpwatch"
_TREND = 40  # commits
_SAME_CHANGE = 0.005  # relative changes that differ by less read as one
_WITHOUT_CHANGE = (RowState.NEW, RowState.MISSING)  # too few values for a change
_CHANGED = (RowState.REGRESSED, RowState.IMPROVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Typical:
    """A number over the workloads of a kernel: mean or median, least and largest."""

    value: float
    low: float
    high: float
    count: int

    @property
    def is_one(self) -> bool:
        """Whether there is a single workload."""
        return self.count == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLine:
    """One kernel on one machine. `absent`: rows that were never available there."""

    name: str  # the operator; else the module, or the suite if all benchmarks are in one module
    machine: str
    rows: tuple[OverviewEntry, ...]
    absent: tuple[OverviewEntry, ...]
    has_operator: bool  # whether the name is an operator's, which has a page of its own
    main: tuple[OverviewRow, ...]  # those of the line's numbers
    states: tuple[tuple[RowState, int], ...]  # the most urgent first
    others: tuple[tuple[str, int], ...]  # rows of a timed kernel with another metric than latency, by label
    state: RowState
    metric: Metric | None  # of the numbers; None without any
    workloads: int
    implementations: tuple[str, ...]
    changes: MetricChanges  # the newest steps of 30 days
    change_commit: Commit | None  # the newest of these changes
    latest: Typical | None
    year: Typical | None  # relative changes of the steps of 365 days
    light: Typical | None  # shares of the speed of light
    light_of: str
    baseline: Typical | None  # ratios to the best baseline of the same run
    baseline_name: str  # empty if it differs between workloads
    ahead: int  # workloads faster than every baseline
    trend: tuple[float | None, ...]  # relative to each workload's own median; geometric mean
    newest: datetime | None
    since: datetime  # first data of the machine

    @property
    def key(self) -> str:
        """Name in a URL."""
        return f"{self.name}@{self.machine}"

    @property
    def module(self) -> str:
        """The operator or module, as policies and search name it."""
        first = (*self.rows, *self.absent)[0].row
        return kernel_name(first.series.benchmark, first.operator)

    @property
    def page(self) -> str:
        """Name of its page: the operator, the module, or the suite with its module."""
        return self.name if self.name == self.module else f"{self.module}.{self.name}"

    @property
    def anchor(self) -> str:
        """HTML id."""
        return quote(self.key, safe="@")

    @property
    def is_complete(self) -> bool:
        """Whether every implementation has a row for every workload, so that the counts add up."""
        others = sum(number for _, number in self.others)
        return len(self.rows) == self.workloads * max(1, len(self.implementations)) + others

    def is_across_gpus(self, state: RowState) -> bool:
        """Whether all rows in this state, one or more, are so across GPUs."""
        found = [each.is_across_gpus_as(state) for each in self.rows if state in each.states]
        return bool(found) and all(found)

    @property
    def trend_state(self) -> RowState:
        if self.year is None or self.metric is None:
            return RowState.UNCHANGED
        return trend_state(self.year.value, self.trend, self.metric)

    @property
    def differs_since_first_run(self) -> bool:
        """Whether the steps of a year come to another change than the newest step of the first implementation."""
        if self.year is None or not (self.year.low or self.year.high):
            return False
        newest = [each.change for each in self.changes.every if each.metric == self.metric and not each.implementation]
        return len(newest) != 1 or newest[0] is None or abs(newest[0] - self.year.value) >= _SAME_CHANGE

    def changed_at(self, commit: Commit) -> tuple[Series, ...]:
        """Series with a change at this commit, those of the line's numbers first."""
        found = [series for each in self.rows for series, _, _, _, at in _moved(each) if at == commit]
        return tuple(sorted(found, key=lambda series: series.metric != self.metric))

    def days(self) -> float:
        """Age of the machine's first data, from the newest commit, in days."""
        dates = [each.row.commit.date for each in (*self.rows, *self.absent)]
        return (max(dates) - self.since) / timedelta(days=1)


def kernel_lines(entries: Iterable[OverviewEntry]) -> tuple[KernelLine, ...]:
    """Lines of the overview, by urgency and name."""
    known = [(entry, kernel_name(entry.row.series.benchmark, entry.row.operator)) for entry in entries]
    is_one_module = len({name for _, name in known}) == 1 and not any(entry.row.operator for entry, _ in known)
    groups: dict[tuple[str, str], list[OverviewEntry]] = {}
    for entry, name in known:
        series = entry.row.series
        group = name_in_module(series.benchmark).rpartition(".")[0] if is_one_module else ""
        groups.setdefault((group or name, series.machine), []).append(entry)
    lines = [_line(name, machine, rows) for (name, machine), rows in groups.items()]
    order = list(RowState)
    return tuple(sorted(lines, key=lambda line: (order.index(line.state), natural(line.name), line.machine)))


def tally(entries: Iterable[OverviewEntry]) -> tuple[tuple[RowState, int], ...]:
    """Number of rows in each state, those of other metrics included, the most urgent first."""
    counted = Counter(state for entry in entries for state in entry.states)
    return tuple((state, counted[state]) for state in RowState if counted[state])


def _line(name: str, machine: str, rows: Sequence[OverviewEntry]) -> KernelLine:
    whole = sorted(rows, key=_sort_key)
    ordered = [each for each in whole if not each.row.was_never_there]
    main = _main(ordered)
    with_change = [each for each in main if each.state not in _WITHOUT_CHANGE]
    lights = [each.row.speed_of_light for each in main if each.row.speed_of_light is not None]
    baselines = [each.row.baseline for each in main if each.row.baseline is not None]
    baseline_names = {baseline.implementation for baseline in baselines}
    states = tally(ordered or whole)
    changes = _changes(ordered, main[0].row.series.implementation if main else None)
    commits = [at for each in ordered for *_, at in _moved(each) if at is not None]
    return KernelLine(
        name=name,
        machine=machine,
        rows=tuple(ordered),
        absent=tuple(each for each in whole if each.row.was_never_there),
        has_operator=any(each.row.operator is not None for each in ordered),
        main=tuple(each.row for each in main),
        states=states,
        others=_others(ordered),
        state=_state(states),
        metric=main[0].row.series.metric if main else None,
        workloads=_workloads(ordered or whole),
        implementations=tuple(dict.fromkeys(x for each in ordered if (x := each.row.series.implementation))),
        changes=changes,
        change_commit=max(commits, key=lambda commit: commit.position, default=None),
        latest=_geometric([each.row.value for each in main]),
        year=_change([each.year for each in with_change]),
        light=_middle([light.share for light in lights]),
        light_of=lights[0].of if len({light.of for light in lights}) == 1 else "",
        baseline=_geometric([baseline.ratio for baseline in baselines]),
        baseline_name=baseline_names.pop() if len(baseline_names) == 1 else "",
        ahead=sum(baseline.ratio > 1 for baseline in baselines),
        trend=_trend(main),
        newest=max((each.row.newest_run or each.row.commit.date for each in rows), default=None),
        since=min(each.since for each in whole),
    )


def _sort_key(entry: OverviewEntry) -> tuple[object, ...]:
    """By benchmark and size; our CUDA kernel before other implementations."""
    series = entry.row.series
    case = " ".join(value for name, value in series.parameters if name != "implementation")
    implementation = series.implementation or ""
    return (natural(series.benchmark), natural(case), implementation != _OURS, implementation)


def _main(rows: Sequence[OverviewEntry]) -> Sequence[OverviewEntry]:
    """Rows of one metric, latency if any, and of one implementation."""
    metrics = Counter(each.row.series.metric for each in rows)
    if len(metrics) > 1:
        chosen = max(metrics, key=lambda metric: (metric.is_latency, metrics[metric], metric.name))
        rows = [each for each in rows if each.row.series.metric == chosen]
    implementations = {each.row.series.implementation for each in rows}
    if len(implementations) < 2:
        return rows
    first = _OURS if _OURS in implementations else min(name or "" for name in implementations)
    return [each for each in rows if (each.row.series.implementation or "") == first]


def _workloads(rows: Sequence[OverviewEntry]) -> int:
    """Number of workloads; of timed kernels only those with a latency."""
    timed = [each for each in rows if each.row.series.metric.is_latency] or rows
    return len({(each.row.series.benchmark, each.row.series.case) for each in timed})


def _others(rows: Sequence[OverviewEntry]) -> tuple[tuple[str, int], ...]:
    labels = Counter(m.label for each in rows if not (m := each.row.series.metric).is_latency)
    return tuple(sorted(labels.items())) if labels.total() < len(rows) else ()


def _state(states: Sequence[tuple[RowState, int]]) -> RowState:
    urgent = [state for state, _ in states if state in URGENT]
    if urgent:
        return urgent[0]
    known = [(state, count) for state, count in states if state is not RowState.MISSING] or states
    return max(known, key=lambda pair: pair[1])[0]


_Moved = tuple[Series, Verdict, float | None, bool, Commit | None]  # with change, whether across GPUs, and its commit


def _moved(entry: OverviewEntry) -> list[_Moved]:
    """The changed series of a row: its own, and those of other metrics."""
    row = entry.row
    own: list[_Moved] = []
    if entry.state in _CHANGED:
        own.append((row.series, row.verdict, row.change, row.is_across_gpus, row.change_commit))
    others = row.other_metrics
    return own + [(each.series, each.verdict, each.change, each.is_across_gpus, each.change_commit) for each in others]


def _changes(rows: Sequence[OverviewEntry], first: str | None) -> MetricChanges:
    moved = [
        ChangedSeries(series=series, verdict=verdict, change=change, is_across_gpus=is_across_gpus)
        for entry in rows
        for series, verdict, change, is_across_gpus, _ in _moved(entry)
    ]
    return metric_changes(moved, first, lambda metric, implementation: _count_of(rows, metric, implementation))


def _count_of(rows: Sequence[OverviewEntry], metric: Metric, implementation: str | None) -> int:
    """Series of the metric by this implementation; of a metric without rows of its own, one for each latency."""
    mine = [each.row.series.metric for each in rows if each.row.series.implementation == implementation]
    return mine.count(metric) or sum(each.is_latency for each in mine)


def _geometric(values: Sequence[float | None]) -> Typical | None:
    known = [value for value in values if value is not None and value > 0]
    if not known:
        return None
    typical = math.exp(fmean(math.log(value) for value in known))
    return Typical(value=typical, low=min(known), high=max(known), count=len(known))


def _change(changes: Sequence[float]) -> Typical | None:
    found = _geometric([1 + change for change in changes])
    if found is None:
        return None
    return Typical(value=found.value - 1, low=found.low - 1, high=found.high - 1, count=found.count)


def _middle(shares: Sequence[float | None]) -> Typical | None:
    known = [share for share in shares if share is not None]
    if not known:
        return None
    return Typical(value=median(known), low=min(known), high=max(known), count=len(known))


def _trend(rows: Sequence[OverviewEntry]) -> tuple[float | None, ...]:
    """Geometric mean of the workloads' histories, each relative to its median, aligned at the end."""
    relative: list[list[float | None]] = []
    for each in rows:
        line = each.row.sparkline
        known = [value for value in line if value is not None]
        if known and min(known) > 0:
            middle = median(known)
            missing: list[float | None] = [None] * (_TREND - len(line))
            relative.append(missing + [None if value is None else math.log(value / middle) for value in line])
    length = max((len(each.row.sparkline) for each in rows), default=0)
    columns = list(zip(*relative, strict=True))[_TREND - min(length, _TREND) :] if relative else []
    return tuple(
        math.exp(fmean(known)) if (known := [value for value in column if value is not None]) else None
        for column in columns
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One shape at one commit."""

    value: float | None  # median over the runs
    status: Status
    reason: str | None
    gpus: frozenset[str] = frozenset()  # that measured the value, if known
    run: str = ""  # the newest one of the commit
    adjusted: float | None = None  # as the newest session would have measured it (GPU-adjusted), where known


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeRow:
    """One shape over the page's commits."""

    series: Series
    cells: tuple[Cell | None, ...]  # by commit of the page; None: not recorded
    changes: tuple[SeriesChange, ...]
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One metric of a kernel's shapes on one machine by one implementation, with the other choices."""

    name: str
    machines: tuple[str, ...]
    metrics: tuple[str, ...]
    implementations: tuple[str, ...]  # empty if benchmarks name none
    machine: str
    metric: str
    implementation: str | None
    commits: tuple[Commit, ...]  # oldest first
    software: tuple[tuple[tuple[str, str], ...] | None, ...]  # driver, libraries, harness of each commit's newest run
    older: bool  # whether there are earlier ones
    hidden: int  # rows beyond the most that are returned
    rows: tuple[ShapeRow, ...]
