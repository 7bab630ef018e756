"""Figures as a page has them, and that of a history that a test made, with all of its points."""

import json
from typing import Any

import plotly.graph_objects as go

from warpwatch.dashboard.model.history import (
    CommitPosition,
    Extent,
    History,
    LevelLine,
    Mark,
    MarkKind,
    ShownHistory,
    Spread,
)
from warpwatch.dashboard.model.series import Commit, Point, Status
from warpwatch.dashboard.statistics.levels import levels
from warpwatch.dashboard.store.queries.run_facts import CommitRun, machine_marks
from warpwatch.dashboard.web.figures import history as figure
from warpwatch.dashboard.web.figures.history_view import HistoryView
from warpwatch.dashboard.web.figures.style import page_json


def history_figure(history: History | ShownHistory, view: HistoryView) -> dict[str, Any]:
    """As the series page draws it."""
    return as_page(
        figure.history_figure(whole_history(history, view) if isinstance(history, History) else history, view)
    )


def as_page(made: go.Figure) -> dict[str, Any]:
    """What a page's script reads of a figure."""
    found: dict[str, Any] = json.loads(page_json(made))
    return found


def whole_history(history: History, view: HistoryView) -> ShownHistory:
    """What the store would hand out of such a history, nothing left out."""
    commits = _commits(history)
    places = {}
    among_all = -1
    for number, commit in enumerate(commits):
        among_all += 1 + (commit.unmeasured_before or 0)
        places[commit.hash] = CommitPosition(measured=number, among_all=among_all)
    count = len(history.points)
    spread = {point.commit.hash: point for point in history.points if point.status is Status.OK}
    return ShownHistory(
        history=history,
        levels=_levels(history),
        band=tuple(
            Spread(commit=point.commit, low=point.q25, high=point.q75)
            for point in spread.values()
            if point.q25 is not None and point.q75 is not None
        ),
        positions=places,
        window=_window(commits, view),
        extent=Extent(points=count, drawn=count, points_inside=count, drawn_inside=count),
        marks=_cards(history.points),
    )


def _commits(history: History) -> tuple[Commit, ...]:
    lines = (history.points, *(other.points for other in history.others))
    seen = {point.commit.hash: point.commit for points in lines for point in points}
    return tuple(sorted(seen.values(), key=lambda commit: (commit.position, commit.date)))


def _levels(history: History) -> tuple[LevelLine, ...]:
    if not history.changes:
        return ()
    found = levels(history.points, history.changes, is_exact=history.series.metric.is_exact)
    return tuple(LevelLine(first=each.first, last=each.last, value=each.value) for each in found)


def _cards(points: tuple[Point, ...]) -> tuple[Mark, ...]:
    newest = list({point.commit.hash: point for point in points}.values())
    found = machine_marks([CommitRun(place, place, point.gpu) for place, point in enumerate(newest)], {})
    return tuple(Mark(commit=newest[at].commit, kind=MarkKind.MACHINE, text=text) for at, text in found)


def _window(commits: tuple[Commit, ...], view: HistoryView) -> tuple[Commit, Commit] | None:
    """The first and last commit that the view selects; None (everything) if neither is known."""
    first, last = _index(commits, view.first), _index(commits, view.last)
    if first is None and last is None:
        return None
    low, high = 0 if first is None else first, len(commits) - 1 if last is None else last
    return commits[min(low, high)], commits[max(low, high)]


def _index(commits: tuple[Commit, ...], prefix: str | None) -> int | None:
    if not prefix:
        return None
    return next((index for index, commit in enumerate(commits) if commit.hash.startswith(prefix)), None)
