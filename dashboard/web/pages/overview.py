"""The front page: do the machines measure, what moved, and how every kernel stands, a line each that opens."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from ...model.changepoint import RegressionGroup
from ...model.kernel import KernelLine, Typical, kernel_lines
from ...model.overview import OverviewEntry, RowState
from ...model.series import Commit
from ...model.triage_item import WAITING, TriageFilter
from ...statistics.arrival import Arrival, is_archived
from ...store import queries
from ...store.queries.standings import MONTH_DAYS, YEAR_DAYS
from ...text.labels import state_detail, state_meaning, state_word
from .. import clock
from ..measurement import measurement_of
from ..request_context import here, listed_projects, pages, project_or_404, store, words_asked
from .runner_status import runners, standings_of

bp = Blueprint("overview", __name__)

_LINES_OF_A_PAGE = 60
_ROWS_OF_A_LINE = 40
_ROWS_OF_A_PAGE = 200  # when one kernel is asked for
_NEWEST_REGRESSIONS = 4
_NEWEST_IMPROVEMENTS = 3
_LAST = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What the reader narrows the overview to; empty strings narrow nothing."""

    machine: str = ""
    kernel: str = ""
    verdict: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """The series that one commit made better on a machine, the largest change first."""

    machine: str
    commit: Commit
    rows: tuple[OverviewEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    """A project as it stands, worked out once for all readers between two commits to the store."""

    lines: tuple[KernelLine, ...]
    standings: tuple[OverviewEntry, ...]
    texts: dict[str, str]  # what words are looked for in, by series
    arrivals: dict[str, Arrival]
    regressions: tuple[RegressionGroup, ...]
    improvements: tuple[Improvement, ...]
    operators: dict[tuple[str, str], str]  # by suite and workload, which the same shape of another operator may have


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A line with the rows that stand open under it."""

    line: KernelLine
    matching: int  # rows that the filters keep
    rows: tuple[OverviewEntry, ...]
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns the table has; other projects' results tell nothing for some."""

    machine: bool
    speed_of_light: str  # what its shares are of, "mixed" if not all of the same; empty without any
    baseline: bool
    month: bool  # whether any history reaches back that far
    year: bool


@bp.get("/")
def index() -> ResponseReturnValue:
    """The project's overview if there is one project, else their list."""
    projects = listed_projects()
    if len(projects) == 1:
        return redirect(url_for(".show", project=projects[0].name))
    now_s = clock.now().timestamp()
    arrivals = {each.name: tuple(queries.arrivals(store(), each.name).values()) for each in projects}
    return render_template(
        "projects.html",
        projects=projects,
        late={name: _overdue(its, now_s) for name, its in arrivals.items()},
        archived={name for name, its in arrivals.items() if is_archived((one.newest_s for one in its), now_s)},
        waiting={
            each.name: queries.triage_items(store(), each.name, TriageFilter(states=WAITING), limit=0).total
            for each in projects
        },
    )


@bp.get("/<project:project>/")
def show(project: str) -> str:
    """One project's overview, narrowed by the filters in the URL."""
    found = project_or_404(project)
    told = everything(found.name)
    narrowed = Filter(
        machine=request.args.get("machine", ""),
        kernel=request.args.get("kernel", ""),
        verdict=request.args.get("verdict", ""),
        text=words_asked(),
    )
    order = request.args.get("sort", "")
    on_machine = [line for line in told.lines if narrowed.machine in {"", line.machine}]
    kept = _in_order(_kept(on_machine, narrowed, told.texts), order)
    rows = sum(len(its) for _, its in kept)
    place = pages(_ROWS_OF_A_PAGE, rows) if narrowed.kernel else pages(_LINES_OF_A_PAGE, len(kept))
    opened = set(request.args.getlist("open"))
    opens_all = bool(narrowed.text or narrowed.verdict) and rows <= _ROWS_OF_A_LINE  # then `open` names what is closed
    shown = (
        _whole(kept, place.of)
        if narrowed.kernel
        else [_shown(line, its, is_open=(line.key in opened) is not opens_all) for line, its in place.of(kept)]
    )
    return render_template(
        "overview.html",
        measurement=measurement_of(found.name),
        filter=narrowed,
        is_narrowed=narrowed != Filter(),
        states=_states(on_machine),
        kernels=sorted({line.name for line in told.lines if line.rows} | ({narrowed.kernel} - {""})),
        kernel_word="Kernel" if any(each.row.operator for each in told.standings) else "Module",
        machines=sorted(told.arrivals),
        runners=runners(told.arrivals, told.standings, clock.now()),
        shown=shown,
        columns=_columns([line for line, _ in kept], len(told.arrivals)),
        rows=rows,
        has_any=bool(told.standings),
        place=place,
        order=order,
        toggled=lambda key: here(open=sorted(opened ^ {key})),
        regressions=told.regressions,
        improvements=told.improvements,
        operators=told.operators,
        month_days=MONTH_DAYS,
        year_days=YEAR_DAYS,
        state_word=state_word,
        state_meaning=state_meaning,
        state_detail=state_detail,
    )


def _overdue(arrivals: Iterable[Arrival], now_s: float) -> int:
    """How many machines of a project fell silent."""
    return sum(its.is_overdue(now_s) for its in arrivals)


def everything(project: str) -> Everything:
    """What the page tells of a project."""
    return store().cached(project, "overview", lambda: _everything(project))


def _everything(project: str) -> Everything:
    standings = standings_of(project)
    return Everything(
        lines=kernel_lines(standings),
        standings=standings,
        texts={each.row.series.key: _text(each) for each in standings},
        operators={
            (series.suite, series.workload): each.row.operator
            for each in standings
            if (series := each.row.series).workload and each.row.operator
        },
        arrivals=queries.arrivals(store(), project),
        regressions=queries.regressions(store(), project, limit=_NEWEST_REGRESSIONS),
        improvements=tuple(_improvements(standings)[:_NEWEST_IMPROVEMENTS]),
    )


def _text(standing: OverviewEntry) -> str:
    series = standing.row.series
    return f"{series.title} {series.machine} {series.environment}".lower()


def _kept(
    lines: Iterable[KernelLine], narrowed: Filter, texts: dict[str, str]
) -> list[tuple[KernelLine, Sequence[OverviewEntry]]]:
    """The lines that the filters leave, each with its rows that they leave."""
    words = narrowed.text.lower().split()
    kept: list[tuple[KernelLine, Sequence[OverviewEntry]]] = []
    for line in lines:
        if narrowed.kernel not in {"", line.name}:
            continue
        rows: Sequence[OverviewEntry] = line.rows
        if narrowed.verdict:
            rows = [each for each in (*line.rows, *line.absent) if narrowed.verdict in each.states]
        if words:
            rows = [each for each in rows if all(word in texts[each.row.series.key] for word in words)]
        if rows:
            kept.append((line, rows))
    return kept


def _shown(line: KernelLine, rows: Sequence[OverviewEntry], *, is_open: bool) -> Shown:
    return Shown(line=line, matching=len(rows), rows=tuple(rows[:_ROWS_OF_A_LINE]) if is_open else (), is_open=is_open)


def _whole(
    kept: Sequence[tuple[KernelLine, Sequence[OverviewEntry]]], page: Callable[[Sequence[str]], Sequence[str]]
) -> list[Shown]:
    """All lines of one kernel, open, with the rows of this page."""
    on_page = set(page([each.row.series.key for _, rows in kept for each in rows]))
    found = [
        Shown(
            line=line,
            matching=len(rows),
            is_open=True,
            rows=tuple(each for each in rows if each.row.series.key in on_page),
        )
        for line, rows in kept
    ]
    return [each for each in found if each.rows]


def _in_order(
    kept: list[tuple[KernelLine, Sequence[OverviewEntry]]], order: str
) -> list[tuple[KernelLine, Sequence[OverviewEntry]]]:
    """By what the reader asks for, the worst first; else as they come, the most urgent first."""
    keys: dict[str, Callable[[KernelLine], float]] = {
        "month": lambda line: -_worst(line, line.month),
        "year": lambda line: -_worst(line, line.year),
        "light": lambda line: line.light.value if line.light else _LAST,
        "baseline": lambda line: line.baseline.value if line.baseline else _LAST,
        "newest": lambda line: line.newest.timestamp() if line.newest else 0.0,
    }
    if order == "name":
        return sorted(kept, key=lambda pair: (pair[0].name, pair[0].machine))
    return sorted(kept, key=lambda pair: keys[order](pair[0])) if order in keys else kept


def _worst(line: KernelLine, change: Typical | None) -> float:
    """The change of the workload that got worse most."""
    if change is None:
        return -_LAST
    return -change.low if line.metric is not None and line.metric.is_worse(-1.0) else change.high


def _states(lines: Iterable[KernelLine]) -> tuple[tuple[RowState, int], ...]:
    counted: Counter[RowState] = Counter()
    for line in lines:
        counted.update(dict(line.states))
        counted[RowState.MISSING] += len(line.absent) if line.rows else 0
    return tuple((state, counted[state]) for state in RowState if counted[state])


def _columns(lines: Sequence[KernelLine], machines: int) -> Columns:
    limits = {line.light_of or "mixed" for line in lines if line.light is not None}
    days = max((line.days() for line in lines), default=0.0)
    return Columns(
        machine=machines > 1,
        speed_of_light=limits.pop() if len(limits) == 1 else "mixed" if limits else "",
        baseline=any(line.baseline is not None for line in lines),
        month=days >= MONTH_DAYS,
        year=days >= YEAR_DAYS,
    )


def _improvements(standings: Iterable[OverviewEntry]) -> list[Improvement]:
    """What stands improved, by the commit behind it, newest first."""
    together: dict[tuple[str, str], list[OverviewEntry]] = {}
    for each in standings:
        row = each.row
        if each.state is RowState.IMPROVED and row.change_is_step and row.change_commit is not None:
            together.setdefault((row.change_commit.hash, row.series.machine), []).append(each)
    found = []
    for (_, machine), better in together.items():
        better.sort(key=lambda each: -abs(each.row.change or 0.0))
        commit = better[0].row.change_commit
        assert commit is not None
        found.append(Improvement(machine=machine, commit=commit, rows=tuple(better)))
    return sorted(found, key=lambda one: (-one.commit.position, one.machine))
