"""One kernel over all its shapes: a heat map of their changes over commits, and a table that leads to each history."""

from dataclasses import replace

from flask import Blueprint, abort, render_template, request

from ...analysis.thresholds import step_thresholds
from ...model.kernel import Kernel
from ...model.series import Series
from ...store import queries
from ...text.labels import state_detail, state_meaning, state_word
from ..figures.heat_map import Reference, heat_map_figure, heat_rows
from ..figures.history_lines import name_beside
from ..request_context import project_or_404, store
from .runner_status import standings_of

bp = Blueprint("kernel", __name__, url_prefix="/<project:project>/kernel")

_REFERENCES = (
    (Reference.FIRST, "first level"),
    (Reference.NEWEST, "newest level"),
    (Reference.OWN_CARD, "its own card"),
)
COMMITS = (30, 60, 120)  # columns to choose from
_HEIGHTS = (4, 8, 12, 16, 24, 32, 48, 64)  # rows that a height in series.css has room for


@bp.get("/<project:name>")  # any name is one part of the path
def show(project: str, name: str) -> str:
    """The kernel of that name: an operator, or a benchmark of a project that knows no operators."""
    found = project_or_404(project)
    asked = request.args.get("commits", COMMITS[0], type=int)
    kernel = queries.kernel(
        store(),
        found.name,
        name,
        machine=request.args.get("machine"),
        metric=request.args.get("metric"),
        implementation=request.args.get("implementation"),
        commits=asked if asked in COMMITS else COMMITS[0],
    )
    if kernel is None:
        abort(404, f"There is no kernel or benchmark “{name}” in {found.name}.")
    limits = step_thresholds(store(), found.name)
    marked = (replace(row, changes=limits.mark_below_threshold(row.series, row.changes)) for row in kernel.rows)
    kernel = replace(kernel, rows=tuple(marked))
    told = request.args.get("against", "")
    reference = Reference(told) if told in set(Reference) else Reference.FIRST
    rows = heat_rows(kernel, reference)
    verdicts = {row.series.key: row.verdict for row in kernel.rows}
    names = _names([row.series for row in kernel.rows])
    return render_template(
        "kernel.html",
        kernel=kernel,
        rows=list(zip(names, rows, strict=True)),
        reference=reference,
        references=_REFERENCES if _has_cards(kernel) else _REFERENCES[:2],
        figure=heat_map_figure(kernel, rows, names) if rows else None,
        height=next((size for size in _HEIGHTS if len(rows) <= size), _HEIGHTS[-1]),
        asked=asked,
        choices_of_commits=COMMITS,
        # Why there is no verdict, where the overview knows.
        told={
            key: each
            for each in standings_of(found.name)
            if (key := each.row.series.key) in verdicts and each.row.verdict is verdicts[key]
        },
        state_word=state_word,
        state_meaning=state_meaning,
        state_detail=state_detail,
    )


def _has_cards(kernel: Kernel) -> bool:
    """Whether several physical cards measured what is shown."""
    return len({cell.gpus for row in kernel.rows for cell in row.cells if cell is not None and cell.gpus}) > 1


def _names(series: list[Series]) -> list[str]:
    """What tells the shapes apart: the workload or the parameters, with the environment where there are several."""
    several = len({one.environment for one in series}) > 1
    found = []
    for one in series:
        values = [value for name, value in one.parameters if name != "implementation" and value]
        shape = one.workload or ", ".join(values) or name_beside(one)
        found.append(f"{shape} ({one.environment})" if several else shape)
    return found
