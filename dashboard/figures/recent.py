"""The newest commits of one series or two as a small SVG, with the compared commits marked."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from warpwatch.dashboard.figures.scale import Tick, scale_around
from warpwatch.dashboard.store.records import Commit, Point, Status

COMMITS = 60
_LEAST = 0.06  # of the values: noise of a thousandth shall not fill the height
_AFTER = 12  # commits after the newer one


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One commit's level; both places in per cent, from the left and from the top."""

    x: float
    y: float
    commit: Commit
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series."""

    name: str
    marks: tuple[Mark, ...]
    pieces: tuple[tuple[Mark, Mark], ...]  # neighbours, to be joined


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """The figure. `chosen` are the compared commits with what they are called there."""

    lines: tuple[Line, ...]
    chosen: tuple[tuple[str, float], ...]
    ticks: tuple[Tick, ...]  # from the top
    unit: str
    first: Commit
    last: Commit


def recent(
    histories: Sequence[tuple[str, Sequence[Point]]], chosen: Sequence[tuple[str, Commit]], unit: str
) -> Recent | None:  # fmt: skip
    """Named series around the newest chosen commit, COMMITS of them at most; older chosen ones stand at the left.

    None without any number.
    """
    levels = [(name, _levels(points)) for name, points in histories]
    commits = sorted({commit for _, its in levels for commit in its}, key=lambda commit: commit.position)
    if not commits:
        return None
    newest = max(commit.position for _, commit in chosen)
    until = sum(commit.position <= newest for commit in commits) + _AFTER
    shown = commits[:until][-COMMITS:]
    older = [commit for _, commit in chosen if commit in commits and commit not in shown]
    shown = sorted({*older, *shown}, key=lambda commit: commit.position)
    x = {commit: round(100 * (place + 0.5) / len(shown), 2) for place, commit in enumerate(shown)}
    scale = scale_around([value for _, its in levels for commit, value in its.items() if commit in x], _LEAST)
    ticks, shown_unit = scale.ticks(unit, 4)
    lines = []
    for name, its in levels:
        marks = tuple(
            Mark(x=x[commit], y=round(100 - scale.at(its[commit]), 2), commit=commit, value=its[commit])
            for commit in shown
            if commit in its
        )
        lines.append(Line(name=name, marks=marks, pieces=tuple(itertools.pairwise(marks))))
    return Recent(
        lines=tuple(lines),
        chosen=tuple((name, x[commit]) for name, commit in chosen if commit in x),
        ticks=tuple(Tick(at=round(100 - tick.at, 2), text=tick.text) for tick in ticks),
        unit=shown_unit,
        first=shown[0],
        last=shown[-1],
    )


def _levels(points: Sequence[Point]) -> dict[Commit, float]:
    """The median of each commit that has a number."""
    runs: dict[Commit, list[float]] = {}
    for point in points:
        if point.status is Status.OK and point.value is not None:
            runs.setdefault(point.commit, []).append(point.value)
    return {commit: median(values) for commit, values in runs.items()}
