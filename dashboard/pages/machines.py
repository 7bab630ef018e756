"""The machines that record results, and how old their newest data is: a silent runner shows here."""

from flask import Blueprint, render_template

from warpwatch.dashboard.pages.shared import project_or_404, store
from warpwatch.dashboard.store import queries

bp = Blueprint("machines", __name__)


@bp.get("/<project:project>/machines")
def show(project: str) -> str:
    """All machines of a project, newest data first."""
    found = project_or_404(project)
    return render_template("machines.html", machines=queries.machines(store(), found.name))
