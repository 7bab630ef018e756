"""The machines that record results: how old their newest data is, and whether they moved."""

from flask import Blueprint, render_template

from warpwatch.dashboard.pages.shared import project_or_404, store
from warpwatch.dashboard.statistics.equal_code import EqualCodeSpread, equal_code_spread
from warpwatch.dashboard.store import queries

bp = Blueprint("machines", __name__)


@bp.get("/<project:project>/machines")
def show(project: str) -> str:
    """All machines of a project, newest data first."""
    found = project_or_404(project)
    return render_template(
        "machines.html",
        machines=queries.machines(store(), found.name),
        canaries=queries.canaries(store(), found.name),
        equal_code=_equal_code(found.name),
    )


def _equal_code(project: str) -> dict[str, EqualCodeSpread]:
    """By machine, where enough pairs tell."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    for pair in queries.equal_code_pairs(store(), project):
        pairs.setdefault(pair.machine, []).append((pair.first_s, pair.second_s))
    spreads = {machine: equal_code_spread(measured) for machine, measured in pairs.items()}
    return {machine: spread for machine, spread in spreads.items() if spread is not None}
