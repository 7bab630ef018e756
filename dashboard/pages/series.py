"""One benchmark's history over commits, and the search that leads there."""

from dataclasses import replace
from enum import StrEnum
from typing import Any, TypeVar

from flask import Blueprint, abort, jsonify, render_template, request
from flask.typing import ResponseReturnValue

from warpwatch.dashboard.figures.history import history_figure
from warpwatch.dashboard.figures.history_machine import canary_summary
from warpwatch.dashboard.figures.history_view import HistoryView, Scale, Spacing
from warpwatch.dashboard.measure_again import measure_again
from warpwatch.dashboard.pages.change_json import change_json, episode_json
from warpwatch.dashboard.pages.origin_facts import origin_facts
from warpwatch.dashboard.pages.shared import page_number, pages, project_or_404, store
from warpwatch.dashboard.reproduce import asv_command
from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.records import CompiledCode, History, Point, Status

bp = Blueprint("series", __name__, url_prefix="/<project:project>/series")

_SERIES_OF_A_PAGE = 50
_RUNS_TO_CHOOSE = 60
Choice = TypeVar("Choice", bound=StrEnum)


@bp.get("")
@bp.get("/")
def search(project: str) -> str:
    """The series whose name has every word of `q`, a page at a time."""
    found = project_or_404(project)
    words = request.args.get("q", "").strip()
    machine = request.args.get("machine", "")
    number = page_number()
    page = queries.find_series(
        store(),
        found.name,
        search=words,
        machine=machine or None,
        limit=_SERIES_OF_A_PAGE,
        offset=(number - 1) * _SERIES_OF_A_PAGE,
    )
    return render_template(
        "series_list.html",
        found=page,
        words=words,
        machine=machine,
        machines=queries.machines(store(), found.name),
        place=pages(_SERIES_OF_A_PAGE, page.total),
    )


@bp.get("/<key>")
def show(project: str, key: str) -> str:
    """One series: figure, changepoints, where its newest number comes from, and how to measure it again."""
    history = _history_or_404(project, key)
    view = HistoryView(
        spacing=_choice(Spacing, "x"),
        scale=_choice(Scale, "y"),
        first=request.args.get("from"),
        last=request.args.get("to"),
    )
    newest = history.points[-1] if history.points else None
    asked = request.args.get("run", "")
    told = next((point for point in reversed(history.points) if point.run == asked), newest)
    origin = queries.origin(store(), key, told.run) if told else None
    recorded = queries.siblings(store(), key)
    own = history.series
    # A rival has no verdict of ours, and neither has what restates another metric.
    is_watched = own.metric.is_judged and own.is_watched
    last_step = next((change for change in reversed(history.changes) if change.kind is ChangeKind.STEP), None)
    standing = next((row for row in recorded if row.series.key == key and is_watched), None)
    return render_template(
        "series.html",
        series=history.series,
        history=history,
        view=view,
        without_window=replace(view, first=None, last=None),
        figure=history_figure(history, view),
        newest=newest,
        newest_number=next((p for p in reversed(history.points) if p.status is Status.OK), None),
        changes=sorted(history.changes, key=lambda change: change.index, reverse=True),
        episodes=history.episodes[::-1],
        wanted_change=last_step,
        wanted=measure_again(own, last_step) if last_step is not None and is_watched else None,
        no_numbers=[point for point in reversed(history.points) if point.status is not Status.OK],
        standing=standing,
        siblings=[row for row in recorded if row.series.key != key and not row.was_never_there],
        told=told,
        origin=origin_facts(origin) if origin else (),
        recent=history.points[: -_RUNS_TO_CHOOSE - 1 : -1],
        canaries=canary_summary(history.canaries),
        cards=len({point.card for point in history.points if point.card}),
        compiled=_compiled(project, history, newest),
        command=asv_command(history.series, newest.commit) if newest else None,
    )


@bp.get("/<key>/data.json")
def data(project: str, key: str) -> ResponseReturnValue:
    """The points and changepoints behind the figure, as recorded, in the metric's own unit."""
    history = _history_or_404(project, key)
    return jsonify(
        series=history.series.key,
        benchmark=history.series.benchmark,
        parameters=dict(history.series.parameters),
        machine=history.series.machine,
        environment=history.series.environment,
        unit=history.series.metric.unit,
        better=history.series.metric.better.value,
        points=[_point(point) for point in history.points],
        changepoints=[change_json(history.series, change) for change in history.changes],
        episodes=[episode_json(episode) for episode in history.episodes],
    )


def _history_or_404(project: str, key: str) -> History:
    found = project_or_404(project)
    history = queries.history(store(), key)
    if history is None or history.series.project != found.name:
        abort(404, f"There is no series “{key}” in {found.name}. Its benchmark may have been renamed.")
    return history


def _compiled(project: str, history: History, newest: Point | None) -> tuple[CompiledCode, ...]:
    """What the compiler made of this operator at the newest commit."""
    if newest is None or history.workload is None:
        return ()
    page = queries.commit_page(store(), project, newest.commit.hash)
    found = page.compiled if page else ()
    return tuple(code for code in found if code.operator == history.workload.operator)


def _choice(kind: type[Choice], argument: str) -> Choice:
    """The member the URL names; the first where it names none."""
    first = next(iter(kind))
    asked = request.args.get(argument, first.value)
    return kind(asked) if asked in set(kind) else first


def _point(point: Point) -> dict[str, Any]:
    return {
        "commit": point.commit.hash,
        "date": point.commit.date.isoformat(),
        "value": point.value,
        "quartiles": None if point.q25 is None else [point.q25, point.q75],
        "sample_count": point.sample_count,
        "status": point.status.value,
        "reason": point.reason,
        "run": point.run,
        "card": point.card,
    }
