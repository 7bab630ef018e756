"""Where a history's level changed, and what went by and is no commit's: signs, lines and the words beside them."""

from collections.abc import Sequence
from typing import Any

from warpwatch.dashboard import quantities
from warpwatch.dashboard.figures.history_view import RUN_DIGITS, Frame
from warpwatch.dashboard.figures.hover import change_text, episode_text
from warpwatch.dashboard.figures.palette import BETTER, INK, MUTED, SURFACE, WORSE
from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.store.records import History, SeriesChange

_LABELLED = 40  # the largest; series.js shows those that have room, all have theirs in the hover and in the table


_NO_COMMITS = (ChangeKind.MAY_BE_CHANCE, ChangeKind.MACHINE_STATE, ChangeKind.UNJUDGED)


def change_traces(history: History, frame: Frame) -> list[dict[str, Any]]:
    """A triangle at each changepoint, upwards where the value went up; worse and better are two legend entries.

    What no commit of ours changes neither regresses nor improves.
    """
    traces = []
    run_at = _runs(history)
    steps = [change for change in history.changes if change.kind is ChangeKind.STEP]
    counting = [change for change in steps if change.below_limit is None]
    kinds = [("regression", WORSE, [change for change in counting if change.is_worse]),
             ("improvement", BETTER, [change for change in counting if not change.is_worse]),
             ("below the limit", MUTED, [change for change in steps if change.below_limit is not None]),
             *((kind.value if kind is not ChangeKind.MACHINE_STATE else "the machine moved", INK,
                [change for change in history.changes if change.kind is kind]) for kind in _NO_COMMITS)]  # fmt: skip
    if not history.series.is_watched:
        kinds = [("the machine moved" if history.series.is_control else "change", INK, list(history.changes))]
    for name, colour, changes in kinds:
        if changes:
            traces.append(
                {
                    "name": name, "mode": "markers",
                    "x": [frame.x(change.commit) for change in changes],
                    "y": [frame.y(change.after) for change in changes],
                    "marker": {"color": colour, "size": 12, "line": {"width": 1, "color": SURFACE},
                               "symbol": ["triangle-up" if c.magnitude > 0 else "triangle-down" for c in changes]},
                    "text": [change_text(change, history.series.metric, name) for change in changes],
                    "hovertemplate": "%{text}<extra></extra>",
                    "customdata": [run_at.get(change.commit.hash) for change in changes],
                    "cliponaxis": False,
                }
            )  # fmt: skip
    return traces


def change_labels(changes: Sequence[SeriesChange], frame: Frame, is_ours: bool) -> list[dict[str, Any]]:
    """The magnitudes of the largest changes, in lanes over the plot, where no value is in the way; largest first."""
    largest = sorted(changes, key=lambda change: -abs(change.magnitude))[:_LABELLED]
    return [
        {
            "name": "change", "x": frame.x(change.commit), "xref": "x", "y": 1, "yref": "paper", "xanchor": "left",
            "yanchor": "top", "text": quantities.change(change.magnitude, change.before), "showarrow": False,
            "xshift": 3, "bgcolor": SURFACE, "borderpad": 0, "font": {"color": _colour(change, is_ours), "size": 11},
        }
        for change in largest
    ]  # fmt: skip


def change_lines(changes: Sequence[SeriesChange], frame: Frame, is_ours: bool) -> list[dict[str, Any]]:
    """An upright line at each changepoint."""
    return [
        {
            "type": "line", "xref": "x", "yref": "paper", "x0": frame.x(change.commit), "x1": frame.x(change.commit),
            "y0": 0, "y1": 1, "layer": "below",
            "line": {"color": _colour(change, is_ours), "width": 1, "dash": "dot"},
        }
        for change in changes
    ]  # fmt: skip


def episode_traces(history: History, frame: Frame) -> list[dict[str, Any]]:
    """What no commit is accused of: a diamond where it began, or a drift ended, that tells more when pointed at."""
    if not history.episodes:
        return []
    run_at = _runs(history)
    ends = [each.range_end if each.kind is ChangeKind.DRIFT else each.commit for each in history.episodes]
    return [
        {
            "name": "no commit’s", "mode": "markers",
            "x": [frame.x(commit) for commit in ends],
            "y": [frame.y(episode.after) for episode in history.episodes],
            "marker": {"color": MUTED, "size": 11, "symbol": "diamond-open", "line": {"width": 1.5}},
            "text": [episode_text(episode, history.series.metric) for episode in history.episodes],
            "hovertemplate": "%{text}<extra></extra>",
            "customdata": [run_at.get(commit.hash) for commit in ends],
        }
    ]  # fmt: skip


def _runs(history: History) -> dict[str, str]:
    return {point.commit.hash: point.run[:RUN_DIGITS] for point in history.points}


def _colour(change: SeriesChange, is_ours: bool) -> str:
    if change.below_limit is not None:
        return MUTED
    is_a_commits = is_ours and change.kind is ChangeKind.STEP
    return (WORSE if change.is_worse else BETTER) if is_a_commits else INK
