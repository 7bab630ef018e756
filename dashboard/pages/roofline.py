"""How close each kernel comes to what its machine can do."""

from flask import Blueprint, abort, render_template, request

from warpwatch.dashboard.figures.roofline import roofline_figure
from warpwatch.dashboard.pages.shared import project_or_404, store
from warpwatch.dashboard.store import queries

bp = Blueprint("roofline", __name__)


@bp.get("/<project:project>/roofline")
def show(project: str) -> str:
    """One machine's roofline and the table beside it; the machine with the newest data where the URL names none."""
    found = project_or_404(project)
    rooflines = queries.rooflines(store(), found.name)
    machine = request.args.get("machine", "")
    chosen = next((each for each in rooflines if each.machine.name == machine), None)
    if machine and chosen is None:
        abort(404, f"There is no roofline for a machine named “{machine}”: it has recorded no ceilings or workloads.")
    if chosen is None and rooflines:
        chosen = rooflines[0]
    points = sorted(chosen.points, key=lambda point: point.speed_of_light.share or 0.0, reverse=True) if chosen else []
    return render_template(
        "roofline.html",
        rooflines=rooflines,
        chosen=chosen,
        points=points,
        figure=roofline_figure(chosen) if chosen else None,
    )
