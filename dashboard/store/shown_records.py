"""What a series' page draws of a history: some of its points, and what was reckoned from all of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from warpwatch.dashboard.store.records import (
    Commit,
    CompiledCode,
    History,
    Origin,
    Point,
    Series,
    SeriesChange,
)


class MarkKind(StrEnum):
    """Who tells what is marked at a commit."""

    RELEASE = "release"  # a tag of the repository
    MACHINE = "machine"  # the runs' own context: another card, driver or library from here on
    NOTE = "note"  # a person


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that a reader of the history should know of a commit."""

    commit: Commit
    kind: MarkKind
    text: str
    author: str | None = None  # of a note


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A stretch of commits on one level."""

    first: Commit
    last: Commit
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """First and third quartile of the samples at a commit, or typically around it."""

    commit: Commit
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a commit stands: among the commits on display, and among all of the repository."""

    measured: int
    among_all: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Another series of the project that the reader put on the same axis."""

    series: Series
    points: tuple[Point, ...]
    changes: tuple[SeriesChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much of a history is drawn: of all, and of the window that a reader looks at."""

    points: int
    drawn: int
    points_inside: int
    drawn_inside: int

    @property
    def is_thinned(self) -> bool:
        """Whether some points are not drawn."""
        return self.drawn < self.points


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownHistory:
    """A history whose `points`, and those of what stands beside it, are the ones to draw."""

    history: History
    levels: tuple[Level, ...]
    band: tuple[Spread, ...]
    places: Mapping[str, Place]  # by hash, of each commit that is drawn or marked
    window: tuple[Commit, Commit] | None  # what the reader looks at
    extent: Extent
    marks: tuple[Mark, ...] = ()
    beside: tuple[Beside, ...] = ()
    newest: Point | None = None
    newest_number: Point | None = None
    without_number: tuple[Point, ...] = ()  # the newest of them
    points_without_number: int = 0
    cards: int = 0  # that measured
    listed: tuple[Point, ...] = ()  # a page of all points, the newest first

    @property
    def points_inside(self) -> tuple[Point, ...]:
        """The drawn points of the window."""
        if self.window is None:
            return self.history.points
        low, high = (self.places[commit.hash].measured for commit in self.window)
        return tuple(p for p in self.history.points if low <= self.places[p.commit.hash].measured <= high)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointFacts:
    """One point and the one before it, with everything that was recorded of either."""

    series: Series
    point: Point
    before: Point | None  # the newest number at an earlier commit, of the same card where there is one
    older: str | None  # the runs of the neighbours
    newer: str | None
    samples: tuple[float, ...]
    samples_before: tuple[float, ...]
    origin: Origin | None
    origin_before: Origin | None
    compiled: tuple[CompiledCode, ...]
    compiled_before: tuple[CompiledCode, ...]
