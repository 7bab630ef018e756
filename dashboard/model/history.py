"""History of a series for its page."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from .changepoint import Regression, SeriesChange
from .compiled_code import CompiledCode
from .series import Commit, Origin, Point, Profile, Series, Status, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A series with everything that its page shows."""

    series: Series
    points: tuple[Point, ...]  # by commit, then run time
    changes: tuple[SeriesChange, ...]  # changepoints
    workload: Workload | None
    others: tuple["OtherHistory", ...]  # other implementations of the workload
    canaries: tuple["OtherHistory", ...] = ()  # of the same machine and environment
    profile: Profile | None = None  # the newest of this workload and implementation on this machine
    episodes: tuple[SeriesChange, ...] = ()  # caused by no single commit


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherHistory:
    """Another series: another implementation or a canary of the machine and environment, or one that a reader added."""

    series: Series
    points: tuple[Point, ...]
    changes: tuple[SeriesChange, ...] = ()  # of one that a reader added


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPoint:
    """A series' value at a commit, and the previous one."""

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
    changes: tuple[Regression, ...]  # changepoints at this commit: judged metrics first, worse before better
    compiled: tuple[CompiledCode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPage:
    total: int
    series: tuple[Series, ...]
    latest: Mapping[str, float | None] = field(default_factory=dict)  # by series key


class MarkKind(StrEnum):
    RELEASE = "release"  # a tag of the repository
    MACHINE = "machine"  # another GPU, driver or library from here on
    NOTE = "note"  # a person


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A remark about a commit in a history."""

    commit: Commit
    kind: MarkKind
    text: str
    author: str | None = None  # of a note


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelLine:
    """A segment as drawn."""

    first: Commit
    last: Commit
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """First and third quartile of the samples at a commit, or medians of those around it."""

    commit: Commit
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPosition:
    """Position of a commit among the commits shown, and among all of the repository."""

    measured: int
    among_all: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Number of points and drawn points, in all and in the reader's window."""

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
    """A history with the points to draw, its own and those of other series."""

    history: History
    levels: tuple[LevelLine, ...]
    band: tuple[Spread, ...]
    positions: Mapping[str, CommitPosition]  # by hash, of each commit that is drawn or marked
    window: tuple[Commit, Commit] | None  # shown range
    extent: Extent
    marks: tuple[Mark, ...] = ()
    added: tuple[OtherHistory, ...] = ()
    newest: Point | None = None
    newest_number: Point | None = None
    without_number: tuple[Point, ...] = ()  # the newest ones
    points_without_number: int = 0
    gpus: int = 0  # number that measured
    adjusted: tuple[tuple[Commit, float], ...] = ()  # GPU-adjusted values: as the newest session would have measured
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
    """One point and the previous one, with all recorded facts."""

    series: Series
    point: Point
    before: Point | None  # the newest number at an earlier commit, of the same GPU if any
    older: str | None  # run of the older neighbour
    newer: str | None
    newest: str | None  # run of the newest point; None if it is this one
    samples: tuple[float, ...]
    samples_before: tuple[float, ...]
    origin: Origin | None
    origin_before: Origin | None
    compiled: tuple[CompiledCode, ...]
    compiled_before: tuple[CompiledCode, ...]


def no_number(status: Status, reason: str | None) -> str:
    """Reason in one line: "invalid: throttled", "not measured: code unchanged since abc1234"."""
    if status is Status.UNCHANGED:
        return f"not measured: {reason or 'its code is that of a commit measured before'}"
    return f"{status.value}: {reason}" if reason else status.value


def thinning_note(extent: Extent) -> str:
    """Sentence about how many points are drawn; "" if all are."""
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
