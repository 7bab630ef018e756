"""The overview: runners, newest changes, and the state of every kernel: as lines, small charts, or a matrix."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from ...analysis.causes import change_causes
from ...analysis.headline import Headline, headlines
from ...analysis.kernel_curves import KernelCurve, kernel_curves
from ...analysis.thresholds import step_thresholds
from ...model.alert import WAITING, TriageFilter, TriageOrder
from ...model.changepoint import RegressionGroup
from ...model.kernel_line import KernelLine, Typical, kernel_lines
from ...model.overview import OverviewEntry, RowState
from ...model.quantities import ratio, share
from ...model.series import Commit, workload_of
from ...statistics.arrival import Arrival, is_archived
from ...store import queries
from ...store.cache import ROW_BYTES
from ...store.queries.standings import YEAR_DAYS
from ...text.change_words import cause_words
from ...text.labels import count
from ...text.markdown import code_span
from .. import clock
from ..measurement import measurement_of
from ..request_context import cached, current_url, listed_projects, pagination, project_or_404, search_query, store
from .runner_status import runners, standings_of, states_by_machine

bp = Blueprint("overview", __name__)

_LINES_OF_A_PAGE = 60
_ROWS_OF_A_LINE = 40
_ROWS_OF_A_PAGE = 200  # of one kernel
_NEWEST_REGRESSIONS = 4
_NEWEST_IMPROVEMENTS = 3
_LAST = float("inf")
_OLDER = timedelta(days=1)  # than its machine's newest data, so that the age is worth a column


class View(StrEnum):
    """How the kernels are shown."""

    LIST = "list"
    CHARTS = "charts"
    MATRIX = "matrix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Filters from the URL; empty strings match everything."""

    machine: str = ""
    kernel: str = ""
    verdict: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """Series that one commit improved on a machine, the largest change first."""

    machine: str
    commit: Commit
    rows: tuple[OverviewEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewData:
    """State of a project, cached for all readers."""

    lines: tuple[KernelLine, ...]
    standings: tuple[OverviewEntry, ...]
    arrivals: dict[str, Arrival]
    states: Mapping[tuple[str, RowState], int]  # number of series in each, by machine
    regressions: tuple[RegressionGroup, ...]
    improvements: tuple[Improvement, ...]
    headlines: tuple[Headline, ...]
    not_in_means: frozenset[str]  # keys of lines
    causes: dict[str, str]  # of the newest change, in words, by key of the line
    dtype: str  # of all workloads; empty if they differ
    operators: dict[tuple[str, str], str]  # by suite and workload; operators may share shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLine:
    """A line with its open rows."""

    line: KernelLine
    matching: int  # rows that pass the filters
    rows: tuple[OverviewEntry, ...]
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumns:
    """Columns of the table; not every project has data for all."""

    machine: bool
    speed_of_light: str  # "of peak", "of ceiling" or "mixed"; empty without data
    baseline: bool
    total: bool  # whether the changes since the first run differ from the newest ones
    year: bool  # whether any history is that long
    change: bool  # whether any kernel changed
    newest: bool  # whether any data is older than its machine's newest


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """A kernel with its line on each machine; None where it has none."""

    name: str
    in_means: bool
    cells: tuple[KernelLine | None, ...]

    @property
    def has_operator(self) -> bool:
        return any(line.has_operator for line in self.cells if line is not None)


@bp.get("/")
def index() -> ResponseReturnValue:
    """The list of projects; with one project its overview."""
    projects = listed_projects()
    if len(projects) == 1:
        return redirect(url_for(".show", project=projects[0].name))
    now_s = clock.now().timestamp()
    worst_open = TriageFilter(states=WAITING, order=TriageOrder.WORST)
    arrivals = {project.name: tuple(queries.arrivals(store(), project.name).values()) for project in projects}
    return render_template(
        "projects.html",
        projects=projects,
        late={name: sum(machine.is_overdue(now_s) for machine in machines) for name, machines in arrivals.items()},
        archived={
            name
            for name, machines in arrivals.items()
            if is_archived((machine.newest_s for machine in machines), now_s)
        },
        open={
            project.name: queries.triage_items(store(), project.name, worst_open, limit=1, rows=1)
            for project in projects
        },
        standing={project.name: next(iter(headlines_of(project.name)), None) for project in projects},
        workloads={project.name: queries.project_workloads(store(), project.name) for project in projects},
        workload_of=workload_of,
    )


@bp.get("/<project:project>/")
def show(project: str) -> str:
    """Overview of one project, filtered by the URL."""
    current = project_or_404(project)
    data = overview_data(current.name)
    filters = Filter(
        machine=request.args.get("machine", ""),
        kernel=request.args.get("kernel", ""),
        verdict=request.args.get("verdict", ""),
        text=search_query(),
    )
    found = (
        queries.matching(store(), current.name, filters.text, (each.row.series for each in data.standings))
        if filters.text
        else None
    )
    order = request.args.get("sort", "")
    requested = request.args.get("view", "")
    view = View(requested) if requested in set(View) and not filters.kernel else View.LIST
    on_machine = [line for line in data.lines if filters.machine in {"", line.machine}]
    kept = _in_order(_matching(on_machine, filters, found), order, data.not_in_means)
    rows = sum(len(line_rows) for _, line_rows in kept)
    matrix = _matrix([line for line, _ in kept], data.not_in_means) if view is View.MATRIX else []
    pager = (
        pagination(_ROWS_OF_A_PAGE, rows)
        if filters.kernel
        else pagination(_LINES_OF_A_PAGE, len(matrix if view is View.MATRIX else kept))
    )
    opened = set(request.args.getlist("open"))
    all_open = bool(filters.text or filters.verdict) and rows <= _ROWS_OF_A_LINE  # then `open` lists closed lines
    shown = (
        _whole(kept, pager.of)
        if filters.kernel
        else [
            _shown(line, line_rows, is_open=(line.key in opened) is not all_open)
            for line, line_rows in pager.of(kept if view is not View.MATRIX else [])
        ]
    )
    return render_template(
        "overview.html",
        measurement=measurement_of(current.name),
        filter=filters,
        is_filtered=filters != Filter(),
        states=_states(on_machine),
        kernels=sorted({line.name for line in data.lines if line.rows} | ({filters.kernel} - {""})),
        kernel_word=_kernel_word(data.lines),
        machines=sorted(data.arrivals),
        view=view,
        views=tuple(each for each in View if each is not View.MATRIX or len(data.arrivals) > 1),
        curves=_curves(current.name) if view is View.CHARTS else {},
        matrix=pager.of(matrix),
        matrix_machines=sorted({line.machine for line, _ in kept}),
        not_in_means=data.not_in_means,
        causes=data.causes,
        dtype=data.dtype,
        runners=runners(data.arrivals, data.states, clock.now()),
        shown=shown,
        columns=_columns([line for line, _ in kept]),
        rows=rows,
        has_any=bool(data.standings),
        pagination=pager,
        order=order,
        toggled=lambda key: current_url(open=sorted(opened ^ {key})),
        regressions=data.regressions,
        improvements=data.improvements,
        headlines=data.headlines,
        markdown="\n".join(map(_markdown, data.headlines)),
        operators=data.operators,
        year_days=YEAR_DAYS,
    )


def _markdown(headline: Headline) -> str:
    """One line for a report or a chat."""
    parts = [
        f"**{ratio(headline.speedup)}** the best baseline",
        f"ahead in {headline.ahead} of {count(headline.workloads, 'workload')}",
        *([f"median {share(headline.share_of_peak)} of peak"] if headline.share_of_peak is not None else []),
    ]
    return f"- {code_span(headline.machine)} at {code_span(headline.commit.hash[:8])}: {', '.join(parts)}"


def _kernel_word(lines: Iterable[KernelLine]) -> str:
    if any(line.has_operator for line in lines):
        return "Kernel"
    return "Module" if all(line.name == line.module for line in lines) else "Suite"


@cached(size=lambda data: ROW_BYTES * len(data.lines))  # of entries that `standings_of` counts
def overview_data(project: str) -> OverviewData:
    standings = standings_of(project)
    lines = kernel_lines(standings)
    limits = step_thresholds(store(), project).limits
    dtypes = {workload.dtype for workload in queries.project_workloads(store(), project).values()}
    return OverviewData(
        lines=lines,
        not_in_means=frozenset(line.key for line in lines if line.main and not limits(line.main[0].series).in_means),
        causes={key: cause_words(cause) for key, cause in change_causes(store(), project, lines).items()},
        dtype=dtypes.pop() if len(dtypes) == 1 else "",
        standings=standings,
        operators={
            (series.suite, series.workload): each.row.operator
            for each in standings
            if (series := each.row.series).workload and each.row.operator
        },
        arrivals=queries.arrivals(store(), project),
        states=states_by_machine(standings),
        regressions=queries.regressions(store(), project, limit=_NEWEST_REGRESSIONS),
        improvements=tuple(_improvements(standings)[:_NEWEST_IMPROVEMENTS]),
        headlines=headlines_of(project),
    )


@cached()
def headlines_of(project: str) -> tuple[Headline, ...]:
    """Standing of a project's kernels against the baselines, by machine."""
    return headlines(store(), project, standings_of(project))


@cached()
def _curves(project: str) -> dict[str, KernelCurve]:
    return kernel_curves(store(), project, overview_data(project).lines)


def _matrix(lines: Iterable[KernelLine], not_in_means: frozenset[str]) -> list[MatrixRow]:
    """Kernels in the order of the lines, by machine."""
    by_name: dict[str, dict[str, KernelLine]] = {}
    for line in lines:
        by_name.setdefault(line.name, {})[line.machine] = line
    machines = sorted({machine for cells in by_name.values() for machine in cells})
    return [
        MatrixRow(
            name=name,
            in_means=not any(line.key in not_in_means for line in cells.values()),
            cells=tuple(cells.get(machine) for machine in machines),
        )
        for name, cells in by_name.items()
    ]


def _matching(
    lines: Iterable[KernelLine], filters: Filter, found: frozenset[str] | None
) -> list[tuple[KernelLine, Sequence[OverviewEntry]]]:
    """Lines that pass the filters, each with its matching rows; `found`: keys of the series of the text."""
    kept: list[tuple[KernelLine, Sequence[OverviewEntry]]] = []
    for line in lines:
        if filters.kernel not in {"", line.name, line.module}:
            continue
        rows: Sequence[OverviewEntry] = line.rows
        if filters.verdict:
            rows = [each for each in (*line.rows, *line.absent) if filters.verdict in each.states]
        if found is not None:
            rows = [each for each in rows if each.row.series.key in found]
        if rows:
            kept.append((line, rows))
    return kept


def _shown(line: KernelLine, rows: Sequence[OverviewEntry], *, is_open: bool) -> ShownLine:
    return ShownLine(
        line=line, matching=len(rows), rows=tuple(rows[:_ROWS_OF_A_LINE]) if is_open else (), is_open=is_open
    )


def _whole(
    kept: Sequence[tuple[KernelLine, Sequence[OverviewEntry]]], page: Callable[[Sequence[str]], Sequence[str]]
) -> list[ShownLine]:
    """All lines of one kernel, open, with the rows of the current page."""
    on_page = set(page([each.row.series.key for _, rows in kept for each in rows]))
    lines = [
        ShownLine(
            line=line,
            matching=len(rows),
            is_open=True,
            rows=tuple(each for each in rows if each.row.series.key in on_page),
        )
        for line, rows in kept
    ]
    return [line for line in lines if line.rows]


def _in_order(
    kept: list[tuple[KernelLine, Sequence[OverviewEntry]]], order: str, not_in_means: frozenset[str]
) -> list[tuple[KernelLine, Sequence[OverviewEntry]]]:
    """Lines sorted by a column, worst first; by default the most urgent first, and those out of means last."""
    keys: dict[str, Callable[[KernelLine], float]] = {
        "change": lambda line: -_worst_change(line),
        "year": lambda line: -_worst(line, line.year),
        "light": lambda line: line.light.value if line.light else _LAST,
        "baseline": lambda line: line.baseline.value if line.baseline else _LAST,
        "newest": lambda line: line.newest.timestamp() if line.newest else 0.0,
    }
    if order == "name":
        return sorted(kept, key=lambda pair: (pair[0].name, pair[0].machine))
    if order in keys:
        return sorted(kept, key=lambda pair: keys[order](pair[0]))
    return sorted(kept, key=lambda pair: pair[0].key in not_in_means)


def _worst_change(line: KernelLine) -> float:
    """The largest newest change for the worse, else the smallest one for the better; no change is between them."""
    sizes = [
        abs(each.change) * (1 if each.metric.is_worse(each.change) else -1)
        for each in line.changes.every
        if each.change is not None
    ]
    return max(sizes, default=0.0)


def _worst(line: KernelLine, change: Typical | None) -> float:
    """The change of the workload that regressed most."""
    if change is None:
        return -_LAST
    return -change.low if line.metric is not None and line.metric.is_worse(-1.0) else change.high


def _states(lines: Iterable[KernelLine]) -> tuple[tuple[RowState, int], ...]:
    counts: Counter[RowState] = Counter()
    for line in lines:
        counts.update(dict(line.states))
        counts[RowState.MISSING] += len(line.absent) if line.rows else 0
    return tuple((state, counts[state]) for state in RowState if counts[state])


def _columns(lines: Sequence[KernelLine]) -> TableColumns:
    limits = {line.light_of or "mixed" for line in lines if line.light is not None}
    newest: dict[str, datetime] = {}
    for line in lines:
        if line.newest is not None:
            newest[line.machine] = max(line.newest, newest.get(line.machine, line.newest))
    return TableColumns(
        machine=len({line.machine for line in lines}) > 1,
        speed_of_light=limits.pop() if len(limits) == 1 else "mixed" if limits else "",
        baseline=any(line.baseline is not None for line in lines),
        total=any(line.differs_since_first_run for line in lines),
        year=max((line.days() for line in lines), default=0.0) >= YEAR_DAYS,
        change=any(line.change_commit is not None for line in lines),
        newest=any(line.newest is not None and line.newest < newest[line.machine] - _OLDER for line in lines),
    )


def _improvements(standings: Iterable[OverviewEntry]) -> list[Improvement]:
    """Improved series by commit, newest first."""
    by_commit: dict[tuple[str, str], list[OverviewEntry]] = {}
    for each in standings:
        row = each.row
        if each.state is RowState.IMPROVED and row.change_is_step and row.change_commit is not None:
            by_commit.setdefault((row.change_commit.hash, row.series.machine), []).append(each)
    improvements = []
    for (_, machine), better in by_commit.items():
        better.sort(key=lambda each: -abs(each.row.change or 0.0))
        commit = better[0].row.change_commit
        assert commit is not None
        improvements.append(Improvement(machine=machine, commit=commit, rows=tuple(better)))
    return sorted(improvements, key=lambda improvement: (-improvement.commit.position, improvement.machine))
