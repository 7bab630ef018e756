"""How a reader looks at a history: its axes, which commits are on display, and where each stands."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from statistics import median
from typing import Any

from warpwatch.dashboard.figures.layout import axis
from warpwatch.dashboard.figures.palette import MUTED
from warpwatch.dashboard.store.records import Commit, Point, Status


class Spacing(StrEnum):
    """What the horizontal axis counts."""

    COMMIT = "commit"
    DATE = "date"


class Scale(StrEnum):
    """How the vertical axis grows."""

    LINEAR = "linear"
    LOG = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView:
    """How a reader wants to see a history: axes, and the first and last commit on display (None: all)."""

    spacing: Spacing = Spacing.COMMIT
    scale: Scale = Scale.LINEAR
    first: str | None = None  # prefixes of hashes
    last: str | None = None


@dataclass(frozen=True)
class Frame:
    """Where a commit stands on the horizontal axis, and how recorded values become displayed ones."""

    commits: tuple[Commit, ...]
    spacing: Spacing
    factor: float

    def x(self, commit: Commit) -> str:
        return commit.hash[:8] if self.spacing is Spacing.COMMIT else commit.date.isoformat()

    def place(self, commit: Commit) -> str | int:
        """Where a line or a note stands: on an axis of commits plotly takes a hash of digits alone for a place."""
        return self._places[commit.hash] if self.spacing is Spacing.COMMIT else commit.date.isoformat()

    @cached_property
    def _places(self) -> dict[str, int]:
        return {commit.hash: index for index, commit in enumerate(self.commits)}

    def y(self, value: float | None) -> float | None:
        return None if value is None else value * self.factor


def by_commit(points: Iterable[Point]) -> list[tuple[Commit, float]]:
    """The median of each commit that has a number."""
    runs: dict[str, tuple[Commit, list[float]]] = {}
    for point in points:
        if point.status is Status.OK and point.value is not None:
            runs.setdefault(point.commit.hash, (point.commit, []))[1].append(point.value)
    return [(commit, median(values)) for commit, values in runs.values()]


def x_axis(frame: Frame, view: HistoryView) -> dict[str, Any]:
    """The axis of commits or dates, cut to what the reader asked for."""
    window = _window(frame, view)
    if view.spacing is Spacing.DATE:
        return axis("", type="date", **({"range": window} if window else {}))
    return axis(
        "",
        type="category",
        categoryorder="array",
        categoryarray=[commit.hash[:8] for commit in frame.commits],
        tickangle=0,
        tickfont={"color": MUTED, "size": 11, "family": "ui-monospace, monospace"},
        **({"range": window} if window else {}),
    )


def _window(frame: Frame, view: HistoryView) -> list[Any] | None:
    """The range of the horizontal axis that shows the asked commits; None (everything) if neither is known."""
    first = _index(frame.commits, view.first)
    last = _index(frame.commits, view.last)
    if (first is None and last is None) or not frame.commits:
        return None
    low = 0 if first is None else first
    high = len(frame.commits) - 1 if last is None else last
    low, high = min(low, high), max(low, high)
    if view.spacing is Spacing.COMMIT:
        return [low - 0.5, high + 0.5]
    return [frame.commits[low].date.isoformat(), frame.commits[high].date.isoformat()]


def _index(commits: Sequence[Commit], prefix: str | None) -> int | None:
    if not prefix:
        return None
    return next((index for index, commit in enumerate(commits) if commit.hash.startswith(prefix)), None)
