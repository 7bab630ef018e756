"""The page of one series, and the list of series."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from flask import Blueprint, Response, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from markupsafe import Markup

from ...analysis.next_measurement import measure_again
from ...analysis.slow_decline import with_causes
from ...analysis.thresholds import step_thresholds
from ...model.changepoint import SeriesChange
from ...model.history import OtherHistory, ShownHistory, thinning_note
from ...model.metric import Metric
from ...model.naming import kernel_page
from ...model.overview import OverviewEntry, OverviewRow
from ...model.series import Point, Series, Status
from ...model.verdict import ChangeKind
from ...store import queries
from ...store.cache import ROW_BYTES
from ...store.queries.series_view import LISTED, HistoryRequest
from ...text.change_words import later_sentence
from ..figures.history import history_figure
from ..figures.history_lines import name_in_project
from ..figures.history_markers import canary_summary
from ..figures.history_view import HistoryView, Scale, Spacing, baselines_of
from ..figures.style import look, page_json
from ..request_context import (
    Pagination,
    current_url,
    external_url,
    page_number,
    pagination,
    project_or_404,
    search_query,
    store,
)
from .point import panel
from .runner_status import standings_of
from .series_answer import answer_markdown, last_change, series_answer

MAX_OVERLAYS = 6
FOUND_SERIES = 12  # results of the overlay search


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayRow:
    """An overlaid series, with the URL that removes it."""

    series: Series
    name: str
    newest: Point | None  # with a valid value
    last_change: SeriesChange | None
    changes: int
    without: str  # URL


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayChoice:
    """A series to overlay, with the URL that adds it."""

    name: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnHistory:
    """The displayed history of a series, and its figure as JSON."""

    shown: ShownHistory
    figure: Markup


def overlay_rows(overlays: Sequence[OtherHistory]) -> tuple[OverlayRow, ...]:
    """The overlaid series, in the figure's order."""
    keys = [overlay.series.key for overlay in overlays]
    return tuple(
        OverlayRow(
            series=overlay.series,
            name=name_in_project(overlay.series),
            newest=next((point for point in reversed(overlay.points) if point.status is Status.OK), None),
            last_change=overlay.changes[-1] if overlay.changes else None,
            changes=len(overlay.changes),
            without=current_url(**{"with": [key for key in keys if key != overlay.series.key]}),
        )
        for overlay in overlays
    )


def overlay_choices(
    shown: ShownHistory, siblings: Sequence[OverviewRow], elsewhere: Iterable[Series], found: Iterable[Series]
) -> dict[str, tuple[OverlayChoice, ...]]:
    """Series that can be overlaid, by heading; empty at MAX_OVERLAYS."""
    keys = [overlay.series.key for overlay in shown.added]
    if len(keys) >= MAX_OVERLAYS:
        return {}
    displayed = {shown.history.series.key, *keys}

    def choices(candidates: Iterable[Series]) -> tuple[OverlayChoice, ...]:
        return tuple(
            OverlayChoice(name=name_in_project(series), url=current_url(**{"with": [*keys, series.key], "find": None}))
            for series in candidates
            if series.key not in displayed
        )

    groups = {
        "Found": choices(found),
        "Other metrics of the same measurement": choices(row.series for row in siblings),
        "On other machines": choices(elsewhere),
        "Other implementations": choices(other.series for other in shown.history.others),
    }
    if request.args.get("find"):
        groups = {"Found": groups["Found"]}
    return {heading: group for heading, group in groups.items() if group}


bp = Blueprint("series", __name__, url_prefix="/<project:project>/series")
short_bp = Blueprint("short", __name__)

_SERIES_OF_A_PAGE = 50
Option = TypeVar("Option", bound=StrEnum)


@bp.get("")
@bp.get("/")
def search(project: str) -> str:
    """The series whose name contains every word of `q`."""
    current = project_or_404(project)
    words = search_query()
    filters = {name: request.args.get(name, "") for name in ("machine", "metric", "implementation")}
    number = page_number()
    metrics, implementations = _measured(current.name)
    page = queries.find_series(
        store(),
        current.name,
        search=words,
        machine=filters["machine"] or None,
        metric=filters["metric"] or None,
        implementation=filters["implementation"] or None,
        first=[metric.name for metric in metrics if metric.is_latency]
        or [metric.name for metric in metrics if metric.is_judged],
        limit=_SERIES_OF_A_PAGE,
        offset=(number - 1) * _SERIES_OF_A_PAGE,
    )
    return render_template(
        "series_list.html",
        found=page,
        words=words,
        filters=filters,
        is_filtered=bool(words or any(filters.values())),
        choices={
            "machine": [(machine.name, machine.name) for machine in queries.machines(store(), current.name)],
            "metric": [(metric.name, metric.label) for metric in metrics],
            "implementation": [(name, look(name).label) for name in implementations],
        },
        pagination=pagination(_SERIES_OF_A_PAGE, page.total),
    )


@bp.get("/<key>")
def show(project: str, key: str) -> str:
    """One series: the answer, figure, changepoints, the point of `run`, overlays.

    The point is by default the one of the last change, else the newest.
    """
    project_or_404(project)
    view = _view()
    drawn = _drawn_or_404(project, key, view)
    shown = drawn.shown
    own = shown.history.series
    number = page_number()
    recorded = queries.siblings(store(), key)
    # Baselines and metrics that restate another have no verdict.
    is_ours = own.metric.is_judged and own.is_ours
    changes = sorted(shown.history.changes, key=lambda change: change.index, reverse=True)
    standing = next((row for row in recorded if row.series.key == key and is_ours), None)
    steps = {ChangeKind.STEP, ChangeKind.NOT_SIGNIFICANT}
    significant = (change for change in changes if change.kind in steps and change.below_limit is None)
    last_step = next(significant, None)
    siblings = [row for row in recorded if row.series.key != key and not row.was_never_there]
    changed = last_change(own, shown)
    answer = series_answer(shown, changed, standing)
    kernel = kernel_page(own, shown.history.workload)
    return render_template(
        "series.html",
        series=own,
        shown=shown,
        history=shown.history,
        view=view,
        figure=drawn.figure,
        thinning_note=thinning_note(shown.extent),
        changes=changes,
        thresholds=step_thresholds(store(), project),
        stated=queries.stated_changes(store(), key),
        episodes=with_causes(store(), own.project, key, shown.history.episodes)[::-1],
        wanted_change=last_step,
        next_measurement=measure_again(own, last_step) if last_step is not None and is_ours else None,
        standing=standing,
        overview_row=_overview_row(standing) if standing is not None else None,
        siblings=siblings,
        canaries=canary_summary(shown.history.canaries),
        pagination=Pagination(number=number, size=LISTED, total=shown.extent.points),
        overlays=overlay_rows(shown.added),
        choices=overlay_choices(shown, siblings, queries.elsewhere(store(), key), _find_overlays(own)),
        words=search_query("find"),
        point=_point(key, changed),
        kernel=kernel,
        answer=answer,
        later=later_sentence(answer.later, own.metric) if answer.later is not None else "",
        markdown=answer_markdown(shown, answer, kernel),
        permanent_link=external_url("short.series", key=key),
        units=_units(shown),
    )


def _point(key: str, changed: SeriesChange | None) -> dict[str, Any] | None:
    """The panel of the point in the URL, else of the last change, else of the newest point."""
    facts = queries.point_facts(store(), key, run) if (run := request.args.get("run")) else None
    if facts is None and changed is not None:
        facts = queries.point_facts(store(), key, commit=changed.commit.hash)
    facts = facts or queries.point_facts(store(), key)
    return panel(facts) if facts is not None else None


def _units(shown: ShownHistory) -> tuple[tuple[str, str, str], ...]:
    """Choices of the vertical axis' unit: value in the URL, label, meaning."""
    series = shown.history.series
    plain = "Time" if series.metric.is_time else "Value"
    relative = [
        (str(other.series.implementation), f"× {look(other.series.implementation).label}", "At the same commit")
        for other in baselines_of(shown.history)
    ]
    percent = ("percent", "%", "Relative to the first commit shown")
    return (("", plain, "As recorded"), percent, *relative)


@short_bp.get("/s/<string(length=16):key>")
def series(key: str) -> ResponseReturnValue:
    """The permanent address of a series by key alone: redirects to its page."""
    own = queries.series(store(), key)
    if own is None:
        abort(404, f"There is no series “{key}” here. Its benchmark may have been renamed.")
    return redirect(url_for("series.show", project=own.project, key=key))


@bp.get("/<key>/figure.json")
def figure(project: str, key: str) -> ResponseReturnValue:
    """The figure of the page, with more points in the window from `from` to `to`."""
    return Response(_drawn_or_404(project, key, _view()).figure, mimetype="application/json")


def _measured(project: str) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """Metrics, judged ones first, and implementations, ours first."""
    metrics, implementations = queries.metrics_and_implementations(store(), project)
    return (
        tuple(sorted(metrics, key=lambda metric: (not metric.is_latency, not metric.is_judged, metric.label))),
        tuple(sorted(implementations, key=lambda name: (name != "warpwatch", look(name).label.lower()))),
    )


def _overview_row(row: OverviewRow) -> OverviewEntry | None:
    """The series' row in the overview, which has the reason of its state; None if it is of an earlier import."""
    rows = (standing for standing in standings_of(row.series.project) if standing.row.series.key == row.series.key)
    return next((standing for standing in rows if standing.row.verdict is row.verdict), None)


def _view() -> HistoryView:
    return HistoryView(
        spacing=_option(Spacing, "x"),
        scale=_option(Scale, "y"),
        unit=request.args.get("unit", ""),
        first=request.args.get("from"),
        last=request.args.get("to"),
    )


def _drawn_or_404(project: str, key: str, view: HistoryView) -> DrawnHistory:
    """The displayed history and its figure; cached for the URL without a query, for plotly takes most of its time."""
    overlays = tuple(request.args.getlist("with")[:MAX_OVERLAYS])
    wanted = HistoryRequest(first=view.first, last=view.last, overlays=overlays, page=page_number())

    def draw() -> DrawnHistory:
        shown = _shown_or_404(project, key, wanted)
        return DrawnHistory(shown=shown, figure=page_json(history_figure(shown, view)))

    return draw() if request.args else store().cached(project, ("drawn history", key), draw, size=_bytes)


def _bytes(drawn: DrawnHistory) -> int:
    history = drawn.shown.history
    lines = [history.points, *(other.points for other in (*history.others, *history.canaries))]
    lines += [overlay.points for overlay in drawn.shown.added]
    return len(drawn.figure) + ROW_BYTES * sum(map(len, lines))


def _shown_or_404(project: str, key: str, wanted: HistoryRequest) -> ShownHistory:
    """The history of a request, its steps classified by the project's thresholds."""
    shown = queries.shown_history(store(), key, wanted)
    if shown is None or shown.history.series.project != project:
        current = project_or_404(project)
        abort(404, f"There is no series “{key}” in {current.name}. Its benchmark may have been renamed.")
    limits, history = step_thresholds(store(), project), shown.history
    classified = replace(history, changes=limits.mark_below_threshold(history.series, history.changes))
    others = (replace(row, changes=limits.mark_below_threshold(row.series, row.changes)) for row in shown.added)
    return replace(shown, history=classified, added=tuple(others))


def _find_overlays(own: Series) -> Sequence[Series]:
    """Series that match the overlay search."""
    words = search_query("find")
    return queries.find_series(store(), own.project, search=words, limit=FOUND_SERIES).series if words else ()


def _option(kind: type[Option], argument: str) -> Option:
    """The member in the URL; by default the first."""
    first = next(iter(kind))
    value = request.args.get(argument, first.value)
    return kind(value) if value in set(kind) else first
