"""The commits that have results, and all that one of them did."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from ...analysis.compare_sides import Compared
from ...analysis.thresholds import steps_judged_by
from ...model.comparison import ComparedBy, ComparisonRow, MachineDrift
from ...model.compiled_code import CompiledDifference, compiled_difference
from ...model.history import CommitPage, CommitPoint
from ...model.naming import kernel_of, natural
from ...model.quantities import change
from ...model.series import Commit, Series, Status, workload_of
from ...model.verdict import Verdict
from ...store import queries
from ...store.cache import ROW_BYTES
from ...store.notes import annotations
from ...store.policy import stated_limits
from ...store.queries.comparison_details import MeasuredOn
from ..comparison_cache import compared_commits
from ..request_context import Pages, commit_or_404, page_number, pages, project_or_404, store, words_asked

# What one commit did, as its page tells it: a verdict for each machine, what has no number, what the compiler made.

_MOVED = (Verdict.REGRESSED, Verdict.IMPROVED)
_TOLD = 12  # rows of each comparison
_DOUBTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitVerdict:
    """The commit against the one before it with results on these machines."""

    machines: tuple[MeasuredOn, ...]
    base: Commit | None  # None: the first
    compared: Compared | None
    counts: tuple[tuple[Verdict, int], ...]
    moved: tuple[ComparisonRow, ...]  # the first of them, regressions before improvements
    left: int  # moved and not among these
    doubts: tuple[tuple[str, int], ...]  # why rows could not be told, the commonest reasons

    @property
    def machine(self) -> str | None:
        """The one machine that the comparison was narrowed to; None where it was of all."""
        return self.machines[0].machine if len(self.machines) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What has no number for one reason on one machine."""

    machine: str
    status: Status
    reason: str | None
    series: tuple[Series, ...]


def commit_verdicts(project: str, commit: Commit, measured: Sequence[MeasuredOn]) -> tuple[CommitVerdict, ...]:
    """Rows of what `warpwatch check` says: one where all measured the same commit before, else one a machine."""
    bases = {each.before.hash for each in measured if each.before is not None}
    if len(bases) == 1 and all(each.before for each in measured):
        return (_verdict(project, commit, measured, measured[0].before, None),)
    found = []
    for name in dict.fromkeys(each.machine for each in measured):
        mine = [each for each in measured if each.machine == name]
        befores = [each.before for each in mine if each.before is not None]
        base = max(befores, key=lambda before: before.position, default=None)
        found.append(_verdict(project, commit, mine, base, name))
    return tuple(found)


def machine_states(project: str, verdicts: Iterable[CommitVerdict], *, has_controls: bool) -> dict[str, str]:
    """What each machine did between the two commits, as its controls tell."""
    found = {}
    for told in verdicts:
        drifts = (
            {drift.machine: drift for drift in told.compared.comparison.drifts} if told.compared is not None else {}
        )
        cards = _cards(queries.measured_on(store(), project, told.base.hash)) if told.base is not None else {}
        now = _cards(told.machines)
        for name in now:
            before = cards.get(name, set())
            found[name] = _state(drifts.get(name), told.base, has_controls, bool(before) and not before & now[name])
    return found


def _state(drift: MachineDrift | None, base: Commit | None, has_controls: bool, is_other_card: bool) -> str:
    if base is None:
        return "–"
    if is_other_card:
        return "another GPU than before: times are not compared"
    if drift is not None:
        return f"changed by {change(drift.change)}, taken off" if drift.change else "changed, its controls disagree"
    return "its controls did not change" if has_controls else "no controls"


def _cards(measured: Iterable[MeasuredOn]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for each in measured:
        found.setdefault(each.machine, set()).update(each.cards)
    return found


def failures(points: Iterable[CommitPoint]) -> tuple[Failure, ...]:
    """Measurements that failed the gate or went wrong otherwise, one series of each; the commonest reason first."""
    groups: dict[tuple[str, Status, str | None], dict[tuple[object, ...], Series]] = {}
    for point in points:
        if point.status in {Status.INVALID, Status.FAILED, Status.WRONG}:
            series = point.series
            its = groups.setdefault((series.machine, point.status, point.reason), {})
            measurement = (series.suite, series.parameters, series.environment)
            if measurement not in its or series.metric.is_latency:  # which stands for all metrics of it
                its[measurement] = series
    found = [
        Failure(machine=machine, status=status, reason=reason, series=tuple(its.values()))
        for (machine, status, reason), its in groups.items()
    ]
    return tuple(sorted(found, key=lambda failure: -len(failure.series)))


def compiled_changes(
    project: str, page: CommitPage, measured: Sequence[MeasuredOn]
) -> tuple[Commit, CompiledDifference] | None:
    """Against the newest commit before that tells of compiled code; None where there is none, or nothing to tell."""
    if not page.compiled:
        return None
    befores = {each.before for each in measured if each.before is not None}
    for base in sorted(befores, key=lambda before: -before.position):
        difference = compiled_difference(queries.compiled_at(store(), project, base.hash), page.compiled)
        if difference.has_both:
            return base, difference
    return None


def _verdict(
    project: str, commit: Commit, machines: Sequence[MeasuredOn], base: Commit | None, machine: str | None
) -> CommitVerdict:
    compared = compared_commits(project, base, commit) if base is not None else None
    rows = [row for row in compared.rows if machine in {None, row.series.machine}] if compared is not None else []
    counted = Counter([row.verdict for row in rows])
    moved = [row for verdict in _MOVED if counted[verdict] for row in rows if row.verdict is verdict]
    doubts = Counter(
        row.reason or "too few runs for how much they scatter" for row in rows if row.verdict is Verdict.INCONCLUSIVE
    )
    return CommitVerdict(
        machines=tuple(machines),
        base=base,
        compared=compared,
        counts=tuple((verdict, counted[verdict]) for verdict in Verdict if counted[verdict]),
        moved=tuple(moved[:_TOLD]),
        left=max(len(moved) - _TOLD, 0),
        doubts=tuple(doubts.most_common(_DOUBTS)),
    )


bp = Blueprint("commits", __name__)

_COMMITS_OF_A_PAGE = 200
_GROUPS_OF_A_PAGE = 30
_ROWS_OF_A_GROUP = 8
_ROWS_OF_A_PAGE = 100  # when one kernel is asked for
_OPENED = 100  # rows found by words, up to which their groups stand open


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedGroup:
    """A kernel's series that were recorded at a commit."""

    name: str
    total: int
    failed: int  # without a number
    rows: tuple[CommitPoint, ...]  # those that are shown
    is_open: bool


@bp.get("/<project:project>/commits")
def index(project: str) -> str:
    """The commits that have results, newest first, a page at a time, each with what it moved."""
    found = project_or_404(project)
    first = (page_number() - 1) * _COMMITS_OF_A_PAGE
    total, commits = queries.commit_list(store(), found.name, limit=_COMMITS_OF_A_PAGE + 1, offset=first)
    shown = commits[:_COMMITS_OF_A_PAGE]
    return render_template(
        "commits.html",
        commits=list(zip_longest(shown, commits[1:])),  # each with the one before, which the next page may hold
        steps=queries.steps_of_commits(store(), found.name),
        place=pages(_COMMITS_OF_A_PAGE, total),
        total=total,
    )


@bp.get("/<project:project>/commit/<prefix>")
def show(project: str, prefix: str) -> ResponseReturnValue:
    """One commit; a shortened hash leads to the full one, so that an address means the same for ever."""
    found = project_or_404(project)
    commit = commit_or_404(found.name, prefix)
    if commit.hash != prefix:
        return redirect(url_for(".show", project=project, prefix=commit.hash))
    page = page_of(found.name, commit.hash)
    words = words_asked()
    wanted = words.lower().split()
    there = [point for point in page.points if point.status is not Status.UNAVAILABLE]
    points = [
        point
        for point in there
        if all(word in f"{point.series.title} {point.series.machine}".lower() for word in wanted)
    ]
    groups, place = _recorded(found.name, points, request.args.get("kernel", ""), is_open=bool(words))
    measured = queries.measured_on(store(), found.name, commit.hash)
    verdicts = store().cached(
        found.name, ("commit verdicts", commit.hash), lambda: commit_verdicts(found.name, commit, measured)
    )
    return render_template(
        "commit.html",
        commit_page=page,
        stated=stated_limits(store(), found.name),
        words=words,
        groups=groups,
        kernel=request.args.get("kernel", ""),
        recorded=len(points),
        place=place,
        unavailable=len(page.points) - len(there),
        measured=measured,
        verdicts=verdicts,
        states=machine_states(found.name, verdicts, has_controls=_has_controls(found.name)),
        failures=failures(there),
        builds=[point for point in there if point.series.metric.name in {"build_time", "library_size"}],
        code=compiled_changes(found.name, page, measured),
        notes=annotations(store(), found.name, commit=commit.hash),
        series_of={point.series.key: point.series for point in there},
        by=ComparedBy.COMMIT,
        is_code_whole=request.args.get("compiled") == "all",
    )


def _recorded(
    project: str, points: Sequence[CommitPoint], kernel: str, *, is_open: bool
) -> tuple[list[RecordedGroup], Pages]:
    """What was recorded, by kernel, a page at a time; of the one that is asked for all rows, of others the first."""
    known = queries.project_workloads(store(), project)
    together: dict[str, list[CommitPoint]] = {}
    for point in points:
        name = kernel_of(point.series, workload_of(point.series, known))
        together.setdefault(name, []).append(point)
    for rows in together.values():
        rows.sort(key=lambda point: not point.series.metric.is_judged)  # what is judged comes first
    if kernel:
        together = {name: rows for name, rows in together.items() if name == kernel}
        place = pages(_ROWS_OF_A_PAGE, len(together.get(kernel, ())))
        return [_group(name, rows, place.of(rows), is_open=True) for name, rows in together.items()], place
    place = pages(_GROUPS_OF_A_PAGE, len(together))
    opens = is_open and len(points) <= _OPENED
    return [
        _group(name, rows, rows if opens else rows[:_ROWS_OF_A_GROUP], is_open=opens)
        for name, rows in place.of(sorted(together.items(), key=lambda group: natural(group[0])))
    ], place


def _group(name: str, rows: Sequence[CommitPoint], shown: Sequence[CommitPoint], *, is_open: bool) -> RecordedGroup:
    failed = sum(point.status in {Status.INVALID, Status.FAILED, Status.WRONG} for point in rows)
    return RecordedGroup(name=name, total=len(rows), failed=failed, rows=tuple(shown), is_open=is_open)


def _has_controls(project: str) -> bool:
    return any(one.controls or one.baselines for one in queries.project_workloads(store(), project).values())


def page_of(project: str, commit: str) -> CommitPage:
    """Everything recorded there, its steps held against what the project states."""

    def read() -> CommitPage:
        page = queries.commit_page(store(), project, commit)
        assert page is not None
        limits = steps_judged_by(store(), project)
        held = (
            replace(each, change=change)
            for each in page.changes
            for change in limits.held_against(each.series, [each.change])
        )
        return replace(page, changes=tuple(held))

    return store().cached(
        project,
        ("commit page", commit),
        read,
        size=lambda page: ROW_BYTES * (len(page.points) + len(page.compiled)),
    )
