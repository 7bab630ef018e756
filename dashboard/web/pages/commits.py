"""The list of commits, and the page of one commit."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from ...analysis.commit_kernels import KernelAtCommit, kernels_at_commit
from ...analysis.compare_sides import Compared, compare_commits
from ...analysis.thresholds import step_thresholds
from ...model.comparison import ComparedBy, ComparisonRow, MachineDrift
from ...model.compiled_code import CompiledDifference, compiled_difference
from ...model.history import CommitPage, CommitPoint
from ...model.naming import kernel_of, natural
from ...model.quantities import change
from ...model.series import Commit, Series, Status, workload_of
from ...model.verdict import CHANGED, Verdict
from ...store import queries
from ...store.cache import ROW_BYTES
from ...store.notes import annotations
from ...store.policy import stated_limits
from ...store.queries.comparison_details import MachineRuns
from ...text.change_words import agreement_words
from ..request_context import (
    Pagination,
    commit_or_404,
    default_threshold,
    page_number,
    pagination,
    project_or_404,
    search_query,
    store,
)

_SHOWN_ROWS = 12  # of each comparison
_SHOWN_REASONS = 3
_FAILED = frozenset({Status.INVALID, Status.FAILED, Status.WRONG})


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitVerdict:
    """The commit compared with the previous one with results on these machines."""

    machines: tuple[MachineRuns, ...]
    base: Commit | None  # None for the first commit
    compared: Compared | None
    counts: tuple[tuple[Verdict, int], ...]
    changed: tuple[ComparisonRow, ...]  # the largest ones, regressions before improvements
    more_changed: int
    kernels: tuple[KernelAtCommit, ...]  # by the pair or by the history
    inconclusive_reasons: tuple[tuple[str, int], ...]  # the most common ones

    @property
    def machine(self) -> str | None:
        """The machine if there is only one, else None."""
        return self.machines[0].machine if len(self.machines) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Series without a valid value on one machine for one reason."""

    machine: str
    status: Status
    reason: str | None
    series: tuple[Series, ...]


def commit_verdicts(project: str, page: CommitPage, measured: Sequence[MachineRuns]) -> tuple[CommitVerdict, ...]:
    """One verdict if all machines measured the same previous commit, else one per machine."""
    bases = {run.before.hash for run in measured if run.before is not None}
    if len(bases) == 1 and all(run.before for run in measured):
        return (_verdict(project, page, measured, measured[0].before, None),)
    verdicts = []
    for name in dict.fromkeys(run.machine for run in measured):
        runs = [run for run in measured if run.machine == name]
        previous = [run.before for run in runs if run.before is not None]
        base = max(previous, key=lambda commit: commit.position, default=None)
        verdicts.append(_verdict(project, page, runs, base, name))
    return tuple(verdicts)


def machine_states(project: str, verdicts: Iterable[CommitVerdict]) -> dict[str, str]:
    """Drift of each machine between the two commits, in words, by its controls."""
    states = {}
    has_controls = any(row.controls or row.baselines for row in queries.project_workloads(store(), project).values())
    for verdict in verdicts:
        drifts = verdict.compared.comparison.drifts if verdict.compared is not None else ()
        drift_of = {drift.machine: drift for drift in drifts}
        before = _gpus(queries.measured_on(store(), project, verdict.base.hash)) if verdict.base is not None else {}
        for name, gpus in _gpus(verdict.machines).items():
            is_other_gpu = bool(before.get(name)) and not before[name] & gpus
            states[name] = _state(drift_of.get(name), verdict.base, has_controls, is_other_gpu)
    return states


def _state(drift: MachineDrift | None, base: Commit | None, has_controls: bool, is_other_gpu: bool) -> str:
    if base is None:
        return "–"
    if is_other_gpu:
        return "another GPU than before: times are compared by references"
    if drift is not None:
        return f"changed by {change(drift.change)}, taken off" if drift.change else "changed, its controls disagree"
    return "its controls did not change" if has_controls else "no controls"


def _gpus(measured: Iterable[MachineRuns]) -> dict[str, set[str]]:
    gpus: dict[str, set[str]] = {}
    for run in measured:
        gpus.setdefault(run.machine, set()).update(run.gpus)
    return gpus


def failures(points: Iterable[CommitPoint]) -> tuple[Failure, ...]:
    """Invalid, failed and wrong measurements, one series of each; the most common reason first."""
    groups: dict[tuple[str, Status, str | None], dict[tuple[object, ...], Series]] = {}
    for point in points:
        if point.status in _FAILED:
            series = point.series
            group = groups.setdefault((series.machine, point.status, point.reason), {})
            measurement = (series.suite, series.parameters, series.environment)
            if measurement not in group or series.metric.is_latency:  # latency represents all its metrics
                group[measurement] = series
    rows = [
        Failure(machine=machine, status=status, reason=reason, series=tuple(group.values()))
        for (machine, status, reason), group in groups.items()
    ]
    return tuple(sorted(rows, key=lambda failure: -len(failure.series)))


def compiled_changes(
    project: str, page: CommitPage, measured: Sequence[MachineRuns]
) -> tuple[Commit, CompiledDifference] | None:
    """The newest previous commit with compiled code, and the difference; None if there is none."""
    if not page.compiled:
        return None
    previous = {run.before for run in measured if run.before is not None}
    for base in sorted(previous, key=lambda commit: -commit.position):
        difference = compiled_difference(queries.compiled_at(store(), project, base.hash), page.compiled)
        if difference.has_both:
            return base, difference
    return None


def _verdict(
    project: str, page: CommitPage, machines: Sequence[MachineRuns], base: Commit | None, machine: str | None
) -> CommitVerdict:
    compared = None
    if base is not None:
        compared = compare_commits(store(), project, base, page.commit, threshold=default_threshold())
    rows = [row for row in compared.rows if machine in {None, row.series.machine}] if compared is not None else []
    counts = Counter([row.verdict for row in rows])
    changed = [row for row in rows if row.verdict in CHANGED]
    shown = _largest(changed)
    reasons = Counter(
        row.reason or "too few runs for their noise" for row in rows if row.verdict is Verdict.INCONCLUSIVE
    )
    return CommitVerdict(
        machines=tuple(machines),
        base=base,
        compared=compared,
        counts=tuple((verdict, counts[verdict]) for verdict in Verdict if counts[verdict]),
        changed=shown,
        more_changed=len(changed) - len(shown),
        kernels=kernels_at_commit(
            compared,
            rows,
            [each for each in page.changes if machine in {None, each.series.machine}],
            queries.project_workloads(store(), project),
            is_newest=page.newer is None,
        ),
        inconclusive_reasons=tuple(reasons.most_common(_SHOWN_REASONS)),
    )


def _largest(changed: Sequence[ComparisonRow]) -> tuple[ComparisonRow, ...]:
    """The largest regressions, then the largest improvements; half of the rows each, if there are as many."""
    ordered = sorted(changed, key=lambda row: -_size(row))
    worse, better = ([row for row in ordered if row.verdict is verdict] for verdict in CHANGED)
    room = max(_SHOWN_ROWS // 2, _SHOWN_ROWS - len(better))
    return (*worse[:room], *better[: _SHOWN_ROWS - len(worse[:room])])


def _size(row: ComparisonRow) -> float:
    change = row.estimate.change if row.estimate is not None else 0.0
    return abs(math.log1p(change)) if change > -1 else math.inf


bp = Blueprint("commits", __name__)

_COMMITS_OF_A_PAGE = 200
_GROUPS_OF_A_PAGE = 30
_ROWS_OF_A_GROUP = 8
_ROWS_OF_A_PAGE = 100  # of one kernel
_OPEN_UP_TO = 100  # search results: their groups are open
_OF_THE_BUILD = frozenset({"build_time", "library_size"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedGroup:
    """Series of a kernel that were recorded at a commit."""

    name: str
    total: int
    failed: int
    rows: tuple[CommitPoint, ...]  # displayed
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedKernel:
    """All points of a kernel at a commit."""

    name: str
    points: tuple[CommitPoint, ...]
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecords:
    """Everything recorded at a commit, with what its page shows of it."""

    page: CommitPage
    recorded: tuple[CommitPoint, ...]  # without unavailable ones
    kernels: tuple[RecordedKernel, ...]
    failures: tuple[Failure, ...]
    builds: tuple[CommitPoint, ...]


@bp.get("/<project:project>/commits")
def index(project: str) -> str:
    """Commits with results, newest first, with their steps."""
    current = project_or_404(project)
    first = (page_number() - 1) * _COMMITS_OF_A_PAGE
    total, commits = queries.commit_list(store(), current.name, limit=_COMMITS_OF_A_PAGE + 1, offset=first)
    shown = commits[:_COMMITS_OF_A_PAGE]
    return render_template(
        "commits.html",
        commits=list(zip_longest(shown, commits[1:])),  # each with the previous one, which may be on the next page
        steps=queries.steps_of_commits(store(), current.name),
        pagination=pagination(_COMMITS_OF_A_PAGE, total),
        total=total,
    )


@bp.get("/<project:project>/commit/<prefix>")
def show(project: str, prefix: str) -> ResponseReturnValue:
    """One commit; a shortened hash redirects to the full one, so that URLs stay valid."""
    current = project_or_404(project)
    commit = commit_or_404(current.name, prefix)
    if commit.hash != prefix:
        return redirect(url_for(".show", project=project, prefix=commit.hash))
    records = records_at(current.name, commit.hash)
    page, recorded, kernels = records.page, records.recorded, records.kernels
    words = search_query()
    if words:
        found = queries.matching(store(), current.name, words, (point.series for point in recorded))
        kernels = _by_kernel(current.name, (point for point in recorded if point.series.key in found))
    groups, pager = _shown(kernels, request.args.get("kernel", ""), is_open=bool(words))
    measured = queries.measured_on(store(), current.name, commit.hash)
    verdicts = store().cached(
        current.name, ("commit verdicts", commit.hash), lambda: commit_verdicts(current.name, page, measured)
    )
    notes = annotations(store(), current.name, commit=commit.hash)
    return render_template(
        "commit.html",
        commit_page=page,
        stated=stated_limits(store(), current.name),
        words=words,
        groups=groups,
        kernel=request.args.get("kernel", ""),
        recorded=sum(len(kernel.points) for kernel in kernels),
        pagination=pager,
        unavailable=len(page.points) - len(recorded),
        measured=measured,
        verdicts=verdicts,
        states=machine_states(current.name, verdicts),
        failures=records.failures,
        builds=records.builds,
        code=compiled_changes(current.name, page, measured),
        notes=notes,
        series_of={point.series.key: point.series for point in recorded} if notes else {},
        by=ComparedBy.COMMIT,
        agreement_words=agreement_words,
        is_code_whole=request.args.get("compiled") == "all",
    )


def _shown(kernels: Sequence[RecordedKernel], chosen: str, *, is_open: bool) -> tuple[list[RecordedGroup], Pagination]:
    """Recorded series by kernel, paginated: all rows of the chosen kernel, else the first rows of each."""
    if chosen:
        kernels = [kernel for kernel in kernels if kernel.name == chosen]
        pager = pagination(_ROWS_OF_A_PAGE, sum(len(kernel.points) for kernel in kernels))
        return [_group(kernel, pager.of(kernel.points), is_open=True) for kernel in kernels], pager
    pager = pagination(_GROUPS_OF_A_PAGE, len(kernels))
    opens = is_open and sum(len(kernel.points) for kernel in kernels) <= _OPEN_UP_TO
    return [
        _group(kernel, kernel.points if opens else kernel.points[:_ROWS_OF_A_GROUP], is_open=opens)
        for kernel in pager.of(kernels)
    ], pager


def _group(kernel: RecordedKernel, rows: Sequence[CommitPoint], *, is_open: bool) -> RecordedGroup:
    return RecordedGroup(
        name=kernel.name, total=len(kernel.points), failed=kernel.failed, rows=tuple(rows), is_open=is_open
    )


def records_at(project: str, commit: str) -> CommitRecords:
    """Everything recorded at the commit, steps classified by the project's thresholds."""

    def read() -> CommitRecords:
        page = queries.commit_page(store(), project, commit)
        assert page is not None
        limits = step_thresholds(store(), project)
        changes = (
            replace(row, change=change)
            for row in page.changes
            for change in limits.mark_below_threshold(row.series, [row.change])
        )
        recorded = tuple(point for point in page.points if point.status is not Status.UNAVAILABLE)
        return CommitRecords(
            page=replace(page, changes=tuple(changes)),
            recorded=recorded,
            kernels=_by_kernel(project, recorded),
            failures=failures(recorded),
            builds=tuple(point for point in recorded if point.series.metric.name in _OF_THE_BUILD),
        )

    return store().cached(
        project,
        ("commit records", commit),
        read,
        size=lambda records: ROW_BYTES * (len(records.page.points) + len(records.page.compiled)),
    )


def _by_kernel(project: str, points: Iterable[CommitPoint]) -> tuple[RecordedKernel, ...]:
    """The points of each kernel, those of judged metrics first; kernels in natural order."""
    workloads = queries.project_workloads(store(), project)
    by_kernel: dict[str, list[CommitPoint]] = {}
    for point in points:
        name = kernel_of(point.series, workload_of(point.series, workloads))
        by_kernel.setdefault(name, []).append(point)
    return tuple(
        RecordedKernel(
            name=name,
            points=tuple(sorted(rows, key=lambda point: not point.series.metric.is_judged)),
            failed=sum(point.status in _FAILED for point in rows),
        )
        for name, rows in sorted(by_kernel.items(), key=lambda group: natural(group[0]))
    )
