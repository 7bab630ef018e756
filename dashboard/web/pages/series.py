"""One benchmark's history over commits, and the search that leads there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from flask import Blueprint, Response, abort, render_template, request
from flask.typing import ResponseReturnValue

from ...analysis.next_measurement import measure_again
from ...analysis.thresholds import ThresholdResolver, step_thresholds
from ...model.changepoint import SeriesChange
from ...model.history import AddedSeries, ShownHistory, thinning_note
from ...model.metric import Metric
from ...model.naming import kernel_page
from ...model.overview import OverviewEntry, OverviewRow
from ...model.series import Point, Series, Status
from ...model.verdict import ChangeKind
from ...store import queries
from ...store.queries.series_view import LISTED, HistoryRequest
from ...text.labels import state_detail, state_meaning, state_word
from ..figures.history import history_figure
from ..figures.history_lines import name_beside
from ..figures.history_markers import canary_summary
from ..figures.history_view import HistoryView, Scale, Spacing
from ..figures.palette import look
from ..figures.themes import page_json
from ..request_context import Pages, here, page_number, pages, project_or_404, store, words_asked
from .point import panel
from .runner_status import standings_of

# Other series on one axis with a series: which are there, how to take one off, and which could be added.

MOST_BESIDE = 6
FOUND = 12  # of a search


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideRow:
    """A series that stands beside, with the address that takes it off."""

    series: Series
    name: str
    newest: Point | None  # the newest number
    last_change: SeriesChange | None
    changes: int
    without: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayChoice:
    """A series that could be added, with the address that adds it."""

    name: str
    address: str


def beside_rows(beside: Sequence[AddedSeries]) -> tuple[BesideRow, ...]:
    """Those on display, in the figure's order."""
    keys = [each.series.key for each in beside]
    return tuple(
        BesideRow(
            series=each.series,
            name=name_beside(each.series),
            newest=next((point for point in reversed(each.points) if point.status is Status.OK), None),
            last_change=each.changes[-1] if each.changes else None,
            changes=len(each.changes),
            without=here(**{"with": [key for key in keys if key != each.series.key]}),
        )
        for each in beside
    )


def choices(
    shown: ShownHistory, siblings: Sequence[OverviewRow], elsewhere: Iterable[Series], found: Iterable[Series]
) -> dict[str, tuple[OverlayChoice, ...]]:
    """Under a heading each, what is not on display yet; empty where no more have room."""
    there = [each.series.key for each in shown.added]
    if len(there) >= MOST_BESIDE:
        return {}
    taken = {shown.history.series.key, *there}

    def offered(some: Iterable[Series]) -> tuple[OverlayChoice, ...]:
        return tuple(
            OverlayChoice(name=name_beside(one), address=here(**{"with": [*there, one.key], "find": None}))
            for one in some
            if one.key not in taken
        )

    groups = {
        "Found": offered(found),
        "Other metrics of the same measurement": offered(row.series for row in siblings),
        "On other machines": offered(elsewhere),
        "Other implementations": offered(other.series for other in shown.history.others),
    }
    if request.args.get("find"):
        groups = {"Found": groups["Found"]}
    return {heading: some for heading, some in groups.items() if some}


bp = Blueprint("series", __name__, url_prefix="/<project:project>/series")

_SERIES_OF_A_PAGE = 50
Choice = TypeVar("Choice", bound=StrEnum)


@bp.get("")
@bp.get("/")
def search(project: str) -> str:
    """The series whose name has every word of `q`, a page at a time."""
    found = project_or_404(project)
    words = words_asked()
    wanted = {name: request.args.get(name, "") for name in ("machine", "metric", "implementation")}
    number = page_number()
    metrics, implementations = _measured(found.name)
    page = queries.find_series(
        store(),
        found.name,
        search=words,
        machine=wanted["machine"] or None,
        metric=wanted["metric"] or None,
        implementation=wanted["implementation"] or None,
        first=[each.name for each in metrics if each.is_latency] or [each.name for each in metrics if each.is_judged],
        limit=_SERIES_OF_A_PAGE,
        offset=(number - 1) * _SERIES_OF_A_PAGE,
    )
    return render_template(
        "series_list.html",
        found=page,
        words=words,
        wanted=wanted,
        is_narrowed=bool(words or any(wanted.values())),
        choices={
            "machine": [(each.name, each.name) for each in queries.machines(store(), found.name)],
            "metric": [(each.name, each.label) for each in metrics],
            "implementation": [(each, look(each).label) for each in implementations],
        },
        place=pages(_SERIES_OF_A_PAGE, page.total),
    )


@bp.get("/<key>")
def show(project: str, key: str) -> str:
    """One series: figure, the point that `run` names (else the newest), changepoints, and what stands beside it."""
    project_or_404(project)
    view = _view()
    shown, limits = _shown_or_404(project, key, view)
    own = shown.history.series
    number = page_number()
    recorded = queries.siblings(store(), key)
    # A rival has no verdict of ours, and neither has what restates another metric.
    is_ours = own.metric.is_judged and own.is_ours
    changes = sorted(shown.history.changes, key=lambda change: change.index, reverse=True)
    standing = next((row for row in recorded if row.series.key == key and is_ours), None)
    steps = {ChangeKind.STEP, ChangeKind.NOT_SIGNIFICANT}
    counting = (change for change in changes if change.kind in steps and change.below_limit is None)
    last_step = next(counting, None)
    siblings = [row for row in recorded if row.series.key != key and not row.was_never_there]
    facts = queries.point_facts(store(), key, request.args.get("run") or None) or queries.point_facts(store(), key)
    return render_template(
        "series.html",
        series=own,
        shown=shown,
        history=shown.history,
        view=view,
        figure=history_figure(shown, view),
        said=thinning_note(shown.extent),
        changes=changes,
        limits=limits,
        stated=queries.stated_changes(store(), key),
        episodes=shown.history.episodes[::-1],
        wanted_change=last_step,
        wanted=measure_again(own, last_step) if last_step is not None and is_ours else None,
        standing=standing,
        told=_told(standing) if standing is not None else None,
        state_word=state_word,
        state_meaning=state_meaning,
        state_detail=state_detail,
        siblings=siblings,
        canaries=canary_summary(shown.history.canaries),
        place=Pages(number=number, size=LISTED, total=shown.extent.points),
        beside=beside_rows(shown.added),
        choices=choices(shown, siblings, queries.elsewhere(store(), key), _found(own)),
        words=words_asked("find"),
        point=panel(facts) if facts else None,
        kernel=kernel_page(own, shown.history.workload),
    )


@bp.get("/<key>/figure.json")
def figure(project: str, key: str) -> ResponseReturnValue:
    """The page's figure alone, with more points of the window that `from` and `to` name."""
    view = _view()
    shown, _ = _shown_or_404(project, key, view)
    return Response(page_json(history_figure(shown, view)), mimetype="application/json")


def _measured(project: str) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """The metrics, what is judged first, and the implementations, ours first."""
    metrics, implementations = store().cached(
        project, "metrics and implementations", lambda: queries.metrics_and_implementations(store(), project)
    )
    return (
        tuple(sorted(metrics, key=lambda each: (not each.is_latency, not each.is_judged, each.label))),
        tuple(sorted(implementations, key=lambda each: (each != "warpwatch", look(each).label.lower()))),
    )


def _told(row: OverviewRow) -> OverviewEntry | None:
    """What the overview says of it, which tells why there is no verdict; None where that is of an earlier import."""
    mine = (each for each in standings_of(row.series.project) if each.row.series.key == row.series.key)
    return next((each for each in mine if each.row.verdict is row.verdict), None)


def _view() -> HistoryView:
    return HistoryView(
        spacing=_choice(Spacing, "x"),
        scale=_choice(Scale, "y"),
        first=request.args.get("from"),
        last=request.args.get("to"),
    )


def _shown_or_404(project: str, key: str, view: HistoryView) -> tuple[ShownHistory, ThresholdResolver]:
    """What is shown, its steps held against what the project states."""
    beside = request.args.getlist("with")[:MOST_BESIDE]
    wanted = HistoryRequest(first=view.first, last=view.last, beside=beside, page=page_number())
    shown = queries.shown_history(store(), key, wanted)
    if shown is None or shown.history.series.project != project:
        found = project_or_404(project)
        abort(404, f"There is no series “{key}” in {found.name}. Its benchmark may have been renamed.")
    limits, history = step_thresholds(store(), project), shown.history
    marked = replace(history, changes=limits.mark_below_threshold(history.series, history.changes))
    others = (replace(each, changes=limits.mark_below_threshold(each.series, each.changes)) for each in shown.added)
    return replace(shown, history=marked, added=tuple(others)), limits


def _found(own: Series) -> Sequence[Series]:
    """What the reader's words find to put beside."""
    words = words_asked("find")
    return queries.find_series(store(), own.project, search=words, limit=FOUND).series if words else ()


def _choice(kind: type[Choice], argument: str) -> Choice:
    """The member the URL names; the first where it names none."""
    first = next(iter(kind))
    asked = request.args.get(argument, first.value)
    return kind(asked) if asked in set(kind) else first
