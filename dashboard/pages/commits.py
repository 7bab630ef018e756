"""The commits that have results, and all that one of them did."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from flask import Blueprint, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from warpwatch.dashboard.comparing import By
from warpwatch.dashboard.judged_by import steps_judged_by
from warpwatch.dashboard.naming import natural
from warpwatch.dashboard.pages.commit_facts import commit_verdicts, compiled_changes, failures, machine_states
from warpwatch.dashboard.pages.shared import Pages, page_number, pages, project_or_404, store, words_asked
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.annotations import annotations
from warpwatch.dashboard.store.cache import ROW_BYTES
from warpwatch.dashboard.store.records import CommitPage, CommitPoint, Status
from warpwatch.dashboard.store.stated_limits import stated_limits

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
    try:
        commit = queries.find_commit(store(), found.name, prefix)
    except queries.AmbiguousCommitError as error:
        abort(404, f"{str(error)[:1].upper()}{str(error)[1:]}.")
    if commit is None:
        abort(404, f"No commit of {found.name} that starts with “{prefix}” has results.")
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
        by=By.COMMIT,
        is_code_whole=request.args.get("compiled") == "all",
    )


def _recorded(
    project: str, points: Sequence[CommitPoint], kernel: str, *, is_open: bool
) -> tuple[list[RecordedGroup], Pages]:  # fmt: skip
    """What was recorded, by kernel, a page at a time; of the one that is asked for all rows, of others the first."""
    known = queries.project_workloads(store(), project)
    together: dict[str, list[CommitPoint]] = {}
    for point in points:
        workload = known.get((point.series.suite, point.series.workload)) if point.series.workload else None
        name = workload.operator if workload else point.series.benchmark.rpartition(".")[0] or point.series.benchmark
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


def _group(
    name: str, rows: Sequence[CommitPoint], shown: Sequence[CommitPoint], *, is_open: bool
) -> RecordedGroup:  # fmt: skip
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
