"""Kernels: lines of the overview, and cells of the kernel page."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean, median
from urllib.parse import quote

from .changepoint import SeriesChange
from .metric import Metric
from .naming import kernel_name, natural
from .overview import OverviewEntry, RowState
from .series import Commit, Series, Status
from .verdict import Verdict


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
    older: bool  # whether there are earlier ones
    rows: tuple[ShapeRow, ...]


# Lines of the overview: one for each kernel on each machine, which opens into its workloads.
#
# A line's state is the most urgent of its rows, if any is urgent, else the most frequent. Its numbers are those of the
# first implementation, ours in CUDA if there are several: over the workloads, the geometric mean of ratios and changes,
# the median of shares.

URGENT = (RowState.REGRESSED, RowState.STOPPED, RowState.INVALID, RowState.IMPROVED)
_OURS = "warpwatch"
_TREND = 40  # commits
_WITHOUT_CHANGE = (RowState.NEW, RowState.MISSING)  # too few values for a change


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

    name: str  # the operator, or the module where no operator is known
    machine: str
    rows: tuple[OverviewEntry, ...]
    absent: tuple[OverviewEntry, ...]
    states: tuple[tuple[RowState, int], ...]  # the most urgent first
    state: RowState
    metric: Metric | None  # of the numbers; None without any
    workloads: int
    implementations: tuple[str, ...]
    latest: Typical | None
    month: Typical | None  # relative changes
    year: Typical | None
    light: Typical | None  # shares of the speed of light
    light_of: str
    baseline: Typical | None  # ratios to the best baseline of the same run
    baseline_name: str  # empty if it differs between workloads
    trend: tuple[float | None, ...]  # relative to each workload's own median; geometric mean
    newest: datetime | None
    since: datetime  # first data of the machine

    @property
    def key(self) -> str:
        """Name in a URL."""
        return f"{self.name}@{self.machine}"

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
    def others(self) -> tuple[tuple[str, int], ...]:
        """Rows of a timed kernel with another metric than latency, by label."""
        if not any(each.row.series.metric.is_latency for each in self.rows):
            return ()
        labels = Counter(m.label for each in self.rows if not (m := each.row.series.metric).is_latency)
        return tuple(sorted(labels.items()))

    def days(self) -> float:
        """Age of the machine's first data, from the newest commit, in days."""
        dates = [each.row.commit.date for each in (*self.rows, *self.absent)]
        return (max(dates) - self.since) / timedelta(days=1)


def kernel_lines(entries: Iterable[OverviewEntry]) -> tuple[KernelLine, ...]:
    """Lines of the overview, by urgency and name."""
    groups: dict[tuple[str, str], list[OverviewEntry]] = {}
    for entry in entries:
        name = kernel_name(entry.row.series.benchmark, entry.row.operator)
        groups.setdefault((name, entry.row.series.machine), []).append(entry)
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
    rivals = [each.row.baseline for each in main if each.row.baseline is not None]
    rival_names = {rival.implementation for rival in rivals}
    states = tally(ordered or whole)
    return KernelLine(
        name=name,
        machine=machine,
        rows=tuple(ordered),
        absent=tuple(each for each in whole if each.row.was_never_there),
        states=states,
        state=_state(states),
        metric=main[0].row.series.metric if main else None,
        workloads=_workloads(ordered or whole),
        implementations=tuple(dict.fromkeys(x for each in ordered if (x := each.row.series.implementation))),
        latest=_geometric([each.row.value for each in main]),
        month=_change([each.month for each in with_change]),
        year=_change([each.year for each in with_change]),
        light=_middle([light.share for light in lights]),
        light_of=lights[0].of if len({light.of for light in lights}) == 1 else "",
        baseline=_geometric([rival.ratio for rival in rivals]),
        baseline_name=rival_names.pop() if len(rival_names) == 1 else "",
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


def _state(states: Sequence[tuple[RowState, int]]) -> RowState:
    urgent = [state for state, _ in states if state in URGENT]
    if urgent:
        return urgent[0]
    known = [(state, count) for state, count in states if state is not RowState.MISSING] or states
    return max(known, key=lambda pair: pair[1])[0]


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
