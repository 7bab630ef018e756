"""A kernel over its shapes: what its page draws."""

from dataclasses import dataclass

from warpwatch.dashboard.store.records import Commit, Series, SeriesChange, Status
from warpwatch.dashboard.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One shape at one commit."""

    value: float | None  # median over the runs
    status: Status
    reason: str | None
    cards: frozenset[str] = frozenset()  # that measured the value, where they are known
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
