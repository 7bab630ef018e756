"""Two sides compared: commits, machines or implementations; narrowed by what the URL says, each row to be opened."""

from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from warpwatch.dashboard.comparing import By, Compared, ComparedRow
from warpwatch.dashboard.compiled_difference import compiled_difference
from warpwatch.dashboard.figures.recent import recent
from warpwatch.dashboard.figures.samples import samples_beside
from warpwatch.dashboard.narrowing import QUIET, Narrowing, narrow
from warpwatch.dashboard.pages.shared import pages, project_or_404, store, words_asked
from warpwatch.dashboard.pages.sides import NoSideError, Sides, asked_by, asked_sides
from warpwatch.dashboard.reproduce import asv_command, gate_command
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.records import Commit, Project

bp = Blueprint("compare", __name__, url_prefix="/<project:project>/compare")

_ROWS_OF_A_PAGE = 100
_TO_CHOOSE = 100  # newest commits
LEAST = ("1", "2", "5", "10", "25")  # per cent


@bp.get("")
def show(project: str) -> ResponseReturnValue:
    """The comparison that the URL names, or a form to choose one; what it leaves open is put into the URL."""
    found = project_or_404(project)
    try:
        sides = asked_sides(found)
    except NoSideError as error:
        return _page(found, complaint=str(error)), 404
    if sides is None:
        return _page(found)
    named = {name: value for name, value in sides.names.items() if value}
    if any(request.args.get(name, "") != value for name, value in named.items()):
        query = urlencode({**request.args.to_dict(), **named})
        return redirect(f"{url_for('.show', project=project)}?{query}")
    compared = sides.compared(found.name)
    by = _narrowing()
    narrowed = narrow(compared.rows, by)
    place = pages(_ROWS_OF_A_PAGE, len(narrowed.rows))
    return _page(
        found, sides=sides, compared=compared, narrowing=by, narrowed=narrowed, place=place,
        rows=place.of(narrowed.rows), choices=_choices(compared), quiet=QUIET,
        between=queries.between(store(), found.name, sides.base_commit, sides.head_commit),
    )  # fmt: skip


@bp.get("/row")
def row(project: str) -> ResponseReturnValue:
    """One row opened: samples, history, compiled code, and how to measure it again. `part=1` gives that part alone."""
    found = project_or_404(project)
    try:
        sides = asked_sides(found)
    except NoSideError as error:
        abort(404, str(error))
    compared = sides.compared(found.name) if sides is not None else None
    asked, against = request.args.get("series", ""), request.args.get("against", "") or request.args.get("series", "")
    rows = compared.rows if compared is not None else ()
    opened = next((each for each in rows if (each.series.key, each.against.key) == (asked, against)), None)
    if sides is None or compared is None or opened is None:
        abort(404, "These two sides have no such row.")
    template = "compare_part.html" if request.args.get("part") else "compare_row.html"
    return render_template(template, threshold=compared.threshold, **_opened(found.name, sides, opened))


def _opened(project: str, sides: Sides, row: ComparedRow) -> dict[str, Any]:
    series, unit = row.series, row.series.metric.unit
    base, head = sides.base_commit, sides.head_commit
    names = side_names(sides, row)
    samples = [
        (name, tuple(sample for run in queries.samples_at(store(), its.key, commit.hash) for sample in run))
        for name, its, commit in zip(names, (row.against, series), (base, head), strict=True)
    ]
    histories = [(names[1], queries.series_points(store(), series.key))]
    if row.against.key != series.key:
        histories.insert(0, (names[0], queries.series_points(store(), row.against.key)))
    chosen = [("base", base), ("head", head)] if base != head else [("compared", head)]
    difference = None
    if sides.by is By.COMMIT and series.workload:
        codes = [queries.compiled_at(store(), project, commit.hash, operator=row.kernel) for commit in (base, head)]
        if any(codes):
            difference = compiled_difference(*(_of(series.implementation, each) for each in codes))
    again = gate_command(series, base, head) if base != head else asv_command(series, head)
    return {
        "sides": sides, "row": row, "samples": samples_beside(samples, unit),
        "recent": recent(histories, chosen, unit), "difference": difference, "command": again,
    }  # fmt: skip


def _of(implementation: str | None, codes: Any) -> list[Any]:
    """The compiled code of one implementation; code that does not say whose it is may be anyone's."""
    return [code for code in codes if code.implementation in {None, implementation}]


def side_names(sides: Sides, row: ComparedRow) -> tuple[str, str]:
    """What base and head of a row are called on a figure."""
    if sides.by is By.COMMIT:
        return f"base {sides.base_commit.hash[:8]}", f"head {sides.head_commit.hash[:8]}"
    if sides.by is By.MACHINE:
        return row.against.machine, row.series.machine
    return row.against.implementation or "", row.series.implementation or ""


def _page(project: Project, **shown: Any) -> str:
    by = shown["sides"].by if shown.get("sides") else asked_by()
    known = queries.project_workloads(store(), project.name).values()
    named = {
        name: request.args.get(name, "") for name in ("base", "head", "commit")
    }  # what the reader wrote, so that a mistake can be mended
    return render_template(
        "compare.html",
        **{"complaint": None, "sides": None, "compared": None, **shown},
        by=by,
        named=named,
        newest=_newest(project.name),
        machines=[machine.name for machine in queries.machines(store(), project.name)],
        ours=sorted({name for workload in known for name in workload.kernels}),
        rivals=sorted({name for workload in known for name in workload.baselines}),
        has_kernels=bool(known),
        least=LEAST,
    )


def _newest(project: str) -> tuple[Commit, ...]:
    return queries.commits(store(), project, limit=_TO_CHOOSE)


def _narrowing() -> Narrowing:
    asked = request.args
    least = asked.get("min", 0.0, type=float)
    return Narrowing(
        kernel=asked.get("kernel", ""),
        machine=asked.get("machine", ""),
        dtype=asked.get("dtype", ""),
        metric=asked.get("metric", ""),
        least=least / 100 if 0 < least < 1e6 else 0.0,
        words=words_asked(),
        verdict=asked.get("verdict", ""),
        is_whole=asked.get("show") == "all",
    )


def _choices(compared: Compared) -> dict[str, list[tuple[str, str]]]:
    """What each filter offers: values with their labels."""
    return {
        "kernel": [(name, name) for name in compared.kernels],
        "machine": [(name, name) for name in compared.machines],
        "dtype": [(name, name) for name in compared.dtypes],
        "metric": list({metric.name: metric.label for metric in compared.metrics}.items()),
    }
