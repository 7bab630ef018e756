"""The front page: every kernel on every machine with its verdict, newest value, change and competition."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from warpwatch.dashboard.naming import module_of, natural
from warpwatch.dashboard.pages.shared import pages, project_or_404, store
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.records import Commit, OverviewRow
from warpwatch.dashboard.verdict import Verdict

bp = Blueprint("overview", __name__)

_ROWS_OF_A_GROUP = 40
_GROUPS_OF_A_PAGE = 25
_ROWS_OF_A_PAGE = 200  # when one group is asked for
_JUDGED = (Verdict.REGRESSED, Verdict.IMPROVED, Verdict.UNCHANGED)
_NEWEST_REGRESSIONS = 4
_NEWEST_IMPROVEMENTS = 3


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
            and (not self.verdict or self.verdict in verdicts_of(row))
            and all(word in searched for word in self.text.lower().split())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The rows of one operator, or of one module where no operator is known."""

    name: str
    rows: tuple[OverviewRow, ...]
    total: int
    verdicts: tuple[tuple[Verdict, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """The series that one commit made better on a machine, the largest change first."""

    machine: str
    commit: Commit
    rows: tuple[OverviewRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns the page has, the same in all its groups; other projects' results tell nothing for these."""

    implementation: bool
    speed_of_light: str  # what its shares are of, "mixed" if not all of the same; empty without any
    baseline: bool


@bp.get("/")
def index() -> ResponseReturnValue:
    """The project's overview if there is one project, else their list."""
    projects = queries.projects(store())
    if len(projects) == 1:
        return redirect(url_for(".show", project=projects[0].name))
    return render_template("projects.html", projects=projects)


@bp.get("/<project:project>/")
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
    kept = [row for row in everything if narrowed.keeps(row) and (narrowed.verdict or not row.was_never_there)]
    judged = Counter(row.series.machine for row in everything if row.verdict in _JUDGED)
    kept.sort(key=lambda row: (-judged[row.series.machine], *_place(row)))  # the machine with most to tell first
    names = sorted({group_name(row) for row in kept})
    # One kernel asked for is shown whole, a page of rows at a time; else a page of groups, each cut to its first rows.
    place = pages(_ROWS_OF_A_PAGE, len(kept)) if narrowed.kernel else pages(_GROUPS_OF_A_PAGE, len(names))
    if narrowed.kernel:
        groups = [_group(narrowed.kernel, kept, place.of(kept))] if kept else []
    else:
        groups = [_group(name, *_rows_of(name, kept)) for name in place.of(names)]
    return render_template(
        "overview.html",
        filter=narrowed,
        is_narrowed=narrowed != Filter(),
        verdicts=_tally(everything),
        kernels=sorted({group_name(row) for row in everything}),
        kernel_word="Kernel" if any(row.operator for row in everything) else "Module",
        machines=queries.machines(store(), found.name),
        groups=groups,
        columns=_columns(kept),
        rows=len(kept),
        has_any=bool(everything),
        place=place,
        regressions=queries.regressions(
            store(), found.name, machine=narrowed.machine or None, limit=_NEWEST_REGRESSIONS
        ),
        improvements=_improvements(everything)[:_NEWEST_IMPROVEMENTS],
    )


def _improvements(rows: Iterable[OverviewRow]) -> list[Improvement]:
    """What stands improved, by the commit behind it, newest first."""
    together: dict[tuple[str, str], list[OverviewRow]] = {}
    for row in rows:
        if row.verdict is Verdict.IMPROVED and row.change_is_step and row.change_commit is not None:
            together.setdefault((row.change_commit.hash, row.series.machine), []).append(row)
    found = []
    for (_, machine), better in together.items():
        better.sort(key=lambda row: -abs(row.change or 0.0))
        commit = better[0].change_commit
        assert commit is not None
        found.append(Improvement(machine=machine, commit=commit, rows=tuple(better)))
    return sorted(found, key=lambda one: (-one.commit.position, one.machine))


def verdicts_of(row: OverviewRow) -> set[Verdict]:
    """A row's verdict, and those of what moved beside it."""
    return {row.verdict, *(other.verdict for other in row.beside)}


def group_name(row: OverviewRow) -> str:
    """The operator, or the module of the benchmark where no operator is known."""
    return row.operator or module_of(row.series.benchmark)


def _place(row: OverviewRow) -> tuple[object, ...]:
    """Sizes in their order, and our CUDA kernel before its twins."""
    series = row.series
    case = " ".join(value for name, value in series.parameters if name != "implementation")
    implementation = series.implementation or ""
    return (series.machine, natural(series.benchmark), natural(case), implementation != "warpwatch", implementation)


def _rows_of(name: str, rows: Iterable[OverviewRow]) -> tuple[list[OverviewRow], list[OverviewRow]]:
    """All rows of a group, and the first of them."""
    mine = [row for row in rows if group_name(row) == name]
    return mine, mine[:_ROWS_OF_A_GROUP]


def _group(name: str, whole: Sequence[OverviewRow], shown: Sequence[OverviewRow]) -> Group:
    return Group(
        name=name,
        rows=tuple(shown),
        total=len(whole),
        verdicts=_tally(whole),
    )


def _columns(rows: Sequence[OverviewRow]) -> Columns:
    limits = {row.speed_of_light.of for row in rows if row.speed_of_light is not None}
    return Columns(
        implementation=any(row.series.implementation for row in rows),
        speed_of_light=limits.pop() if len(limits) == 1 else "mixed" if limits else "",
        baseline=any(row.baseline is not None for row in rows),
    )


def _tally(rows: Sequence[OverviewRow]) -> tuple[tuple[Verdict, int], ...]:
    """How many rows have each verdict, their own or of a metric beside it, in the verdicts' own order."""
    counted = Counter(verdict for row in rows for verdict in verdicts_of(row))
    return tuple((verdict, counted[verdict]) for verdict in Verdict if counted[verdict])
