"""The history of a series as its page draws it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from .changepoint import Regression, SeriesChange
from .compiled_code import CompiledCode
from .series import Commit, Origin, Point, Profile, Series, Status, Workload

# What the store hands to pages, reports, checks and alerts: frozen records, SI units, unscaled values.


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A series with everything its page draws."""

    series: Series
    points: tuple[Point, ...]  # by commit, then run time
    changes: tuple[SeriesChange, ...]  # of the level: steps, and what the machine moved
    workload: Workload | None
    others: tuple["OtherHistory", ...]  # the workload's other implementations: rivals and twins of ours
    canaries: tuple["OtherHistory", ...] = ()  # of the same machine and environment
    profile: Profile | None = None  # the newest of this workload and implementation on this machine
    episodes: tuple[SeriesChange, ...] = ()  # what no commit is accused of


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherHistory:
    """Another series of the same machine and environment, told beside: a rival's, a twin's of ours, or a canary's."""

    series: Series
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPoint:
    """A series' value at the page's commit beside the one before."""

    series: Series
    value: float | None
    status: Status
    reason: str | None
    previous: float | None  # at the newest earlier commit with a number
    previous_commit: Commit | None
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPage:
    """Everything recorded at one commit."""

    project: str
    commit: Commit
    older: Commit | None  # neighbours in the project's order
    newer: Commit | None
    points: tuple[CommitPoint, ...]
    changes: tuple[Regression, ...]  # changepoints at this commit: what is judged first, then worse before better
    compiled: tuple[CompiledCode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPage:
    """One page of a series search."""

    total: int
    series: tuple[Series, ...]
    latest: Mapping[str, float | None] = field(default_factory=dict)  # by series key


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
class LevelLine:
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
class CommitPosition:
    """Where a commit stands: among the commits on display, and among all of the repository."""

    measured: int
    among_all: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedSeries:
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
    levels: tuple[LevelLine, ...]
    band: tuple[Spread, ...]
    positions: Mapping[str, CommitPosition]  # by hash, of each commit that is drawn or marked
    window: tuple[Commit, Commit] | None  # what the reader looks at
    extent: Extent
    marks: tuple[Mark, ...] = ()
    added: tuple[AddedSeries, ...] = ()
    newest: Point | None = None
    newest_number: Point | None = None
    without_number: tuple[Point, ...] = ()  # the newest of them
    points_without_number: int = 0
    gpus: int = 0  # that measured
    listed: tuple[Point, ...] = ()  # a page of all points, the newest first

    @property
    def points_inside(self) -> tuple[Point, ...]:
        """The drawn points of the window."""
        if self.window is None:
            return self.history.points
        low, high = (self.positions[commit.hash].measured for commit in self.window)
        return tuple(p for p in self.history.points if low <= self.positions[p.commit.hash].measured <= high)


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


# What is said of what is missing: why there is no number, and that not all points are drawn.


def no_number(status: Status, reason: str | None) -> str:
    """One line: "invalid: throttled", or "not measured: code unchanged since abc1234"."""
    if status is Status.UNCHANGED:
        return f"not measured: {reason or 'its code is that of a commit measured before'}"
    return f"{status.value}: {reason}" if reason else status.value


def points_said(extent: Extent) -> str:
    """How many points are drawn where not all are; "" where all are."""
    if not extent.is_thinned:
        return ""
    if extent.drawn_inside == extent.points_inside:
        return (
            f"All {extent.points_inside:,} points of this range are drawn; outside it, only some of {extent.points:,}."
        )
    return (
        f"{extent.drawn_inside:,} of {extent.points_inside:,} points are drawn: extremes, changes and what has no"
        " number are always among them. Zoom in for the rest."
    )
