"""Kernels over their shapes: lines of the overview, and cells of the kernel's page."""

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

# A kernel over its shapes: what its page draws.


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One shape at one commit."""

    value: float | None  # median over the runs
    status: Status
    reason: str | None
    gpus: frozenset[str] = frozenset()  # that measured the value, where they are known
    run: str = ""  # the newest one of the commit


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeRow:
    """One shape over the page's commits."""

    series: Series
    cells: tuple[Cell | None, ...]  # a commit of the page each; None: not recorded
    changes: tuple[SeriesChange, ...]
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One metric of a kernel's shapes on a machine, by one implementation, and what else could be asked for."""

    name: str
    machines: tuple[str, ...]
    metrics: tuple[str, ...]
    implementations: tuple[str, ...]  # empty where benchmarks name none
    machine: str
    metric: str
    implementation: str | None
    commits: tuple[Commit, ...]  # oldest first
    older: bool  # whether there are more before them
    rows: tuple[ShapeRow, ...]


# The overview's rows folded: one line for each kernel on each machine, which opens into its workloads.
#
# A line's state is the most urgent of its rows' where one of them wants attention, else that of most of them. Its
# numbers are those of the kernel's first implementation, ours in CUDA where there are twins: typical ones over the
# workloads, the geometric mean of ratios and changes, the median of shares.

URGENT = (RowState.REGRESSED, RowState.STOPPED, RowState.INVALID, RowState.IMPROVED)
_OURS = "warpwatch"
_TREND = 40  # commits
_SPOKEN = (RowState.NEW, RowState.MISSING)  # states of which a change cannot be told


@dataclass(frozen=True, slots=True, kw_only=True)
class Typical:
    """A number over the workloads of a kernel: typical, and from the least to the most."""

    value: float
    low: float
    high: float
    count: int

    @property
    def is_one(self) -> bool:
        """Whether there is nothing to spread."""
        return self.count == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLine:
    """One kernel on one machine. `rows` leaves out what this machine never had, `absent` is that."""

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
    baseline: Typical | None  # ratios to the best rival of the same run
    baseline_name: str  # empty if several are best somewhere
    trend: tuple[float | None, ...]  # relative to each workload's own median; geometric mean
    newest: datetime | None
    since: datetime  # first data of the machine

    @property
    def key(self) -> str:
        """What names it in a URL."""
        return f"{self.name}@{self.machine}"

    @property
    def anchor(self) -> str:
        """What names it within its page, in characters that an id may have."""
        return quote(self.key, safe="@")

    @property
    def is_complete(self) -> bool:
        """Whether every implementation has a row for every workload, so that these numbers and `others` add up."""
        others = sum(number for _, number in self.others)
        return len(self.rows) == self.workloads * max(1, len(self.implementations)) + others

    @property
    def others(self) -> tuple[tuple[str, int], ...]:
        """How many rows of a timed kernel have another metric than latency, by its label."""
        if not any(each.row.series.metric.is_latency for each in self.rows):
            return ()
        labels = Counter(m.label for each in self.rows if not (m := each.row.series.metric).is_latency)
        return tuple(sorted(labels.items()))

    def days(self) -> float:
        """How far back its machine's data reaches from its newest commit."""
        dates = [each.row.commit.date for each in (*self.rows, *self.absent)]
        return (max(dates) - self.since) / timedelta(days=1)


def kernel_lines(standings: Iterable[OverviewEntry]) -> tuple[KernelLine, ...]:
    """The kernels on their machines: what wants attention first, else by name."""
    together: dict[tuple[str, str], list[OverviewEntry]] = {}
    for each in standings:
        name = kernel_name(each.row.series.benchmark, each.row.operator)
        together.setdefault((name, each.row.series.machine), []).append(each)
    lines = [_line(name, machine, rows) for (name, machine), rows in together.items()]
    order = list(RowState)
    return tuple(sorted(lines, key=lambda line: (order.index(line.state), natural(line.name), line.machine)))


def tally(standings: Iterable[OverviewEntry]) -> tuple[tuple[RowState, int], ...]:
    """How many rows are in each state, their own or of what moved beside it, the most urgent first."""
    counted = Counter(state for each in standings for state in each.states)
    return tuple((state, counted[state]) for state in RowState if counted[state])


def _line(name: str, machine: str, rows: Sequence[OverviewEntry]) -> KernelLine:
    whole = sorted(rows, key=_place)
    ordered = [each for each in whole if not each.row.was_never_there]
    main = _main(ordered)
    told = [each for each in main if each.state not in _SPOKEN]
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
        month=_change([each.month for each in told]),
        year=_change([each.year for each in told]),
        light=_middle([light.share for light in lights]),
        light_of=lights[0].of if len({light.of for light in lights}) == 1 else "",
        baseline=_geometric([rival.ratio for rival in rivals]),
        baseline_name=rival_names.pop() if len(rival_names) == 1 else "",
        trend=_trend(main),
        newest=max((each.row.newest_run or each.row.commit.date for each in rows), default=None),
        since=min(each.since for each in whole),
    )


def _place(standing: OverviewEntry) -> tuple[object, ...]:
    """Sizes in their order, and our CUDA kernel before its twins."""
    series = standing.row.series
    case = " ".join(value for name, value in series.parameters if name != "implementation")
    implementation = series.implementation or ""
    return (natural(series.benchmark), natural(case), implementation != _OURS, implementation)


def _main(rows: Sequence[OverviewEntry]) -> Sequence[OverviewEntry]:
    """The rows that speak for the kernel: of one metric, latency if any, and of one implementation."""
    metrics = Counter(each.row.series.metric for each in rows)
    if len(metrics) > 1:
        spoken = max(metrics, key=lambda metric: (metric.is_latency, metrics[metric], metric.name))
        rows = [each for each in rows if each.row.series.metric == spoken]
    implementations = {each.row.series.implementation for each in rows}
    if len(implementations) < 2:
        return rows
    first = _OURS if _OURS in implementations else min(name or "" for name in implementations)
    return [each for each in rows if (each.row.series.implementation or "") == first]


def _workloads(rows: Sequence[OverviewEntry]) -> int:
    """How many there are: of kernels that are timed, what is timed. The host's overhead is a kernel's own, not one."""
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
    """The geometric mean of the workloads' histories, each relative to its own median, their ends side by side."""
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
