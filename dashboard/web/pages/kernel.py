"""All workloads of a kernel: a heat map of changes over commits, and a table."""

from dataclasses import dataclass, replace

from flask import Blueprint, abort, render_template, request

from ...analysis.thresholds import step_thresholds
from ...model.kernel_line import Kernel
from ...model.naming import name_in_module
from ...model.series import Commit, Series
from ...model.verdict import ChangeKind
from ...store import queries
from ...text.labels import count, day
from ...text.markdown import code_span
from ..figures.heat_map import Reference, by_gpu, heat_map_figure, heat_rows
from ..figures.history_lines import name_in_project
from ..request_context import project_or_404, store
from .runner_status import standings_of

bp = Blueprint("kernel", __name__, url_prefix="/<project:project>/kernel")

_REFERENCES = (
    (Reference.FIRST, "first level"),
    (Reference.NEWEST, "newest level"),
    (Reference.OWN_GPU, "its own GPU"),
)
COMMITS = (30, 60, 120)  # columns of the heat map
_HEIGHTS = (4, 8, 12, 16, 24, 32, 48, 64)  # rows per height in series.css


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestSteps:
    """The steps of the newest displayed commit that has any, by direction."""

    commit: Commit
    better: int  # workloads
    worse: int


@bp.get("/<project:name>")  # names may contain slashes, see ProjectName
def show(project: str, name: str) -> str:
    """The kernel with this name: an operator, or a benchmark, suite or module of a project without operators."""
    current = project_or_404(project)
    commits = request.args.get("commits", COMMITS[0], type=int)
    kernel = queries.kernel(
        store(),
        current.name,
        name,
        machine=request.args.get("machine"),
        metric=request.args.get("metric"),
        implementation=request.args.get("implementation"),
        commits=commits if commits in COMMITS else COMMITS[0],
    )
    if kernel is None:
        abort(404, f"There is no kernel or benchmark “{name}” in {current.name}.")
    limits = step_thresholds(store(), current.name)
    classified = (replace(row, changes=limits.mark_below_threshold(row.series, row.changes)) for row in kernel.rows)
    kernel = replace(kernel, rows=tuple(classified))
    against = request.args.get("against", "")
    reference = Reference(against) if against in set(Reference) else Reference.FIRST
    rows = heat_rows(kernel, reference)
    has_several_gpus = len({cell.gpus for row in kernel.rows for cell in row.cells if cell and cell.gpus}) > 1
    is_by_gpu = has_several_gpus and request.args.get("columns") == "gpu"
    shown, shown_rows = by_gpu(kernel, rows) if is_by_gpu else (kernel, rows)
    verdicts = {row.series.key: row.verdict for row in kernel.rows}
    names = _names([row.series for row in kernel.rows])
    row_word = "workload" if any(row.series.workload for row in kernel.rows) else "benchmark"
    steps = _newest_steps(kernel)
    return render_template(
        "kernel.html",
        kernel=kernel,
        rows=list(zip(names, rows, strict=True)),
        row_word=row_word,
        reference=reference,
        references=_REFERENCES if has_several_gpus else _REFERENCES[:2],
        figure=heat_map_figure(shown, shown_rows, names, is_by_gpu=is_by_gpu) if rows else None,
        newest_steps=steps,
        markdown=_markdown(kernel, steps, row_word),
        has_several_gpus=has_several_gpus,
        is_by_gpu=is_by_gpu,
        height=next((size for size in _HEIGHTS if len(rows) <= size), _HEIGHTS[-1]),
        commits=commits,
        choices_of_commits=COMMITS,
        overview_rows={  # with the reasons of states
            key: row
            for row in standings_of(current.name)
            if (key := row.row.series.key) in verdicts and row.row.verdict is verdicts[key]
        },
    )


def _newest_steps(kernel: Kernel) -> NewestSteps | None:
    """None without a step that counts."""
    steps = [
        change
        for row in kernel.rows
        for change in row.changes
        if change.kind is ChangeKind.STEP and change.below_limit is None
    ]
    if not steps:
        return None
    commit = max((step.commit for step in steps), key=lambda commit: commit.position)
    worse = [step.is_worse for step in steps if step.commit.hash == commit.hash]
    return NewestSteps(commit=commit, better=worse.count(False), worse=worse.count(True))


def _markdown(kernel: Kernel, steps: NewestSteps | None, row_word: str) -> str:
    """One line for a pull request or a chat."""
    name = f"{code_span(kernel.name)}, {kernel.metric.replace('_', ' ')} on {code_span(kernel.machine)}"
    if steps is None:
        return f"- {name}: no {row_word} changed"
    parts = [f"{number} {word}" for number, word in ((steps.better, "better"), (steps.worse, "worse")) if number]
    at = f"{code_span(steps.commit.hash[:8])} ({day(steps.commit.date)})"
    return f"- {name}: {', '.join(parts)} of {count(len(kernel.rows), row_word)} at {at}"


def _names(series: list[Series]) -> list[str]:
    """Row names: workload or parameters, with the environment if there are several."""
    several = len({row.environment for row in series}) > 1
    is_module = len({row.benchmark for row in series}) > 1
    names = []
    for row in series:
        values = ", ".join(value for name, value in row.parameters if name != "implementation" and value)
        if is_module and not row.workload:
            name = name_in_module(row.benchmark)
            values = f"{name}({values})" if values else name
        shape = row.workload or values or name_in_project(row)
        names.append(f"{shape} ({row.environment})" if several else shape)
    return names
