"""One kernel on its page: a row for each shape, a cell for each commit."""

from dataclasses import dataclass

from .changepoint import SeriesChange
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
    software: tuple[tuple[tuple[str, str], ...] | None, ...]  # driver, libraries, harness of each commit's newest run
    older: bool  # whether there are earlier ones
    rows: tuple[ShapeRow, ...]
