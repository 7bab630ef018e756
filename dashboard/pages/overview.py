"""The front page: every kernel on every machine with its verdict, newest value, change and competition."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from warpwatch.dashboard.pages.shared import page_number, project_or_404, store
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.records import OverviewRow
from warpwatch.dashboard.verdict import Verdict

bp = Blueprint("overview", __name__)

_ROWS_OF_A_GROUP = 40
_GROUPS_OF_A_PAGE = 25
_ROWS_OF_A_PAGE = 200  # when one group is asked for
_NEWEST_REGRESSIONS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What the reader narrows the overview to; empty strings narrow nothing."""

    machine: str = ""
    kernel: str = ""
    verdict: str = ""
    text: str = ""

    def keeps(self, row: OverviewRow) -> bool:
        """Whether a row stays on the page."""
        searched = f"{row.series.title} {row.series.machine} {row.series.environment}".lower()
        return (
            (not self.kernel or group_name(row) == self.kernel)
            and (not self.verdict or row.verdict == self.verdict)
            and all(word in searched for word in self.text.lower().split())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The rows of one operator, or of one class of benchmarks where no operator is known."""

    name: str
    rows: tuple[OverviewRow, ...]
    total: int
    verdicts: tuple[tuple[Verdict, int], ...]
    has_speed_of_light: bool
    has_baseline: bool
    has_implementation: bool


@bp.get("/")
def index() -> ResponseReturnValue:
    """The project's overview if there is one project, else their list."""
    projects = queries.projects(store())
    if len(projects) == 1:
        return redirect(url_for(".show", project=projects[0].name))
    return render_template("projects.html", projects=projects)


@bp.get("/<project>/")
def show(project: str) -> str:
    """One project's overview, narrowed by the filters in the URL."""
    found = project_or_404(project)
    narrowed = Filter(
        machine=request.args.get("machine", ""),
        kernel=request.args.get("kernel", ""),
        verdict=request.args.get("verdict", ""),
        text=request.args.get("q", "").strip(),
    )
    everything = queries.overview(store(), found.name, machine=narrowed.machine or None)
    kept = [row for row in everything if narrowed.keeps(row)]
    per_group = _ROWS_OF_A_PAGE if narrowed.kernel else _ROWS_OF_A_GROUP
    number = page_number()
    names = sorted({group_name(row) for row in kept})
    shown = names[(number - 1) * _GROUPS_OF_A_PAGE : number * _GROUPS_OF_A_PAGE]
    pages = -(-len(names) // _GROUPS_OF_A_PAGE)
    offset = 0
    if narrowed.kernel:
        offset, shown, pages = (number - 1) * per_group, names, -(-len(kept) // per_group)
    return render_template(
        "overview.html",
        filter=narrowed,
        is_narrowed=narrowed != Filter(),
        verdicts=_tally(everything),
        kernels=sorted({group_name(row) for row in everything}),
        machines=queries.machines(store(), found.name),
        groups=[group for name in shown if (group := _group(name, kept, offset, per_group)).rows],
        rows=len(kept),
        has_any=bool(everything),
        page=number,
        pages=pages,
        regressions=queries.regressions(
            store(), found.name, machine=narrowed.machine or None, limit=_NEWEST_REGRESSIONS
        ),
    )


def group_name(row: OverviewRow) -> str:
    """The operator, or the benchmark's class without the suite's own package name."""
    return row.operator or row.series.suite or row.series.benchmark


def _group(name: str, rows: Iterable[OverviewRow], offset: int, limit: int) -> Group:
    mine = [row for row in rows if group_name(row) == name]
    return Group(
        name=name,
        rows=tuple(mine[offset : offset + limit]),
        total=len(mine),
        verdicts=_tally(mine),
        has_speed_of_light=any(row.speed_of_light is not None for row in mine),
        has_baseline=any(row.baseline is not None for row in mine),
        has_implementation=any(row.series.implementation for row in mine),
    )


def _tally(rows: Sequence[OverviewRow]) -> tuple[tuple[Verdict, int], ...]:
    """How many rows end in each verdict, in the verdicts' own order."""
    counted = Counter(row.verdict for row in rows)
    return tuple((verdict, counted[verdict]) for verdict in Verdict if counted[verdict])
