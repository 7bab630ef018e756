"""Pictures for READMEs: a series' history and a machine's roofline as SVG, upon light or dark."""

from dataclasses import replace

from flask import Blueprint, Response, abort, request

from ...analysis.thresholds import steps_judged_by
from ...store import queries
from ..figures.still_images import history_image, roofline_image
from ..figures.svg import Theme
from ..request_context import project_or_404, store

bp = Blueprint("images", __name__, url_prefix="/<project:project>")

_FRESH_S = 300


@bp.get("/series/<key>/history.svg")
def history(project: str, key: str) -> Response:
    """One series over its commits."""
    found = project_or_404(project)
    told = queries.history(store(), key)
    if told is None or told.series.project != found.name:
        abort(404, f"There is no series “{key}” in {found.name}.")
    held = steps_judged_by(store(), found.name).held_against(told.series, told.changes)
    return _answer(history_image(replace(told, changes=held), _theme()))


@bp.get("/roofline.svg")
def roofline(project: str) -> Response:
    """One machine's roofline; of the machine with the newest data where none is named."""
    found = project_or_404(project)
    machine = request.args.get("machine", "")
    rooflines = queries.rooflines(store(), found.name)
    chosen = next((each for each in rooflines if machine in ("", each.machine.name)), None)
    if chosen is None:
        abort(404, "There is no such roofline: no ceilings or workloads were recorded.")
    return _answer(roofline_image(chosen, _theme()))


def _theme() -> Theme:
    asked = request.args.get("theme", "")
    return Theme(asked) if asked in set(Theme) else Theme.LIGHT


def _answer(image: str) -> Response:
    response = Response(image, content_type="image/svg+xml")
    response.cache_control.max_age = _FRESH_S
    return response
