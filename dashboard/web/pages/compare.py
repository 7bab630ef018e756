"""Comparison of two commits, machines or implementations, with filters and details of each row."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from markupsafe import Markup

from ...analysis.compare_sides import (
    Compared,
    KernelStanding,
    compare_commits,
    compare_implementations,
    compare_machines,
    leaderboard,
)
from ...analysis.comparison_columns import ComparisonColumns
from ...analysis.next_measurement import asv_command, gate_command
from ...importers.project_history import named_commit
from ...model.comparison import ComparedBy, ComparisonRow
from ...model.compiled_code import compiled_difference
from ...model.schema import SeriesSchema
from ...model.series import Commit, Project
from ...store import queries
from ...store.cache import ROW_BYTES
from ...text.comparison_report import as_markdown
from ..comparison_filter import QUIET, ComparisonFilter, apply
from ..figures.change_histogram import change_histogram
from ..figures.samples import recent_figure, samples_of
from ..figures.style import page_json
from ..request_context import cached, default_threshold, pagination, project_or_404, search_query, store
from .overview import headlines_of
from .runner_status import standings_of


class NoSideError(Exception):
    """A side does not exist; the message is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The two sides; `base` and `head` are names of machines or implementations, empty for commits."""

    by: ComparedBy
    base_commit: Commit
    head_commit: Commit
    base: str = ""
    head: str = ""
    all_metrics: bool = False

    @property
    def names(self) -> dict[str, str]:
        """Query parameters, with full hashes."""
        if self.by is ComparedBy.COMMIT:
            return {"base": self.base_commit.hash, "head": self.head_commit.hash}
        at = {"commit": self.head_commit.hash} if self.base_commit == self.head_commit else {}
        return {"by": self.by.value, **at, "base": self.base, "head": self.head}

    def compared(self, project: str) -> Compared:
        commits, threshold = (self.base_commit, self.head_commit), default_threshold()
        if self.by is ComparedBy.COMMIT:
            return compare_commits(store(), project, *commits, threshold=threshold, all_metrics=self.all_metrics)
        if self.by is ComparedBy.MACHINE:
            return compare_machines(store(), project, commits, self.base, self.head, threshold=threshold)
        return compare_implementations(store(), project, self.head_commit, self.base, self.head, threshold=threshold)


def compared_by() -> ComparedBy:
    """The kind of comparison in the URL."""
    by = request.args.get("by", "")
    return ComparedBy(by) if by in set(ComparedBy) else ComparedBy.COMMIT


def sides_of(project: Project) -> Sides | None:
    """The sides in the URL, completed by defaults; None where there are no two. Raises NoSideError."""
    value = request.args.get("by", "")
    if value and value not in set(ComparedBy):
        raise NoSideError(f"“{value}” cannot be compared: choose one of {', '.join(ComparedBy)}.")
    by = compared_by()
    if by is ComparedBy.COMMIT:
        return _commits(project)
    names = {name: request.args.get(name, "").strip() for name in ("base", "head", "commit")}
    named = find(project, names["commit"]) if names["commit"] else None
    if by is ComparedBy.MACHINE:
        machines = [machine.name for machine in queries.machines(store(), project.name)]
        for side in ("base", "head"):
            if names[side] and names[side] not in machines:
                raise NoSideError(f"{project.name} has no machine “{names[side]}”.")
        if not (names["base"] or names["head"]):
            names |= zip(("base", "head"), machines[:2], strict=False)
        if not (names["base"] and names["head"]):
            return None
        newest = queries.newest_of_machines(store(), project.name, names["base"], names["head"])
        commits = (named, named) if named else newest
        if commits is None:
            raise NoSideError("One of the machines has no results yet.")
    else:
        if not any(name in request.args for name in ("base", "head", "commit")):
            return None
        known = queries.implementations(store(), project.name)
        for side in ("base", "head"):
            if names[side] and names[side] not in known:
                raise NoSideError(f"{project.name} has no implementation “{names[side]}”.")
        at = named or queries.newest_measured(store(), project.name, ())
        if at is None:
            raise NoSideError("No commit has results yet.")
        commits = (at, at)
    return Sides(by=by, base_commit=commits[0], head_commit=commits[1], base=names["base"], head=names["head"])


def find(project: Project, name: str) -> Commit:
    """The commit of a hash, a shortened hash, a branch or a tag. Raises NoSideError."""
    try:
        commit, full = named_commit(store(), project, name)
    except queries.AmbiguousCommitError as error:
        raise NoSideError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
    if commit is not None:
        return commit
    if full:
        raise NoSideError(f"“{name}” is commit {full[:8]}, which has no results in {project.name}.")
    raise NoSideError(
        f"No commit of {project.name} with results is named “{name}”. "
        "Use a branch, a tag, or at least 7 digits of a hash."
    )


def _commits(project: Project) -> Sides | None:
    base, head = (request.args.get(side, "").strip() for side in ("base", "head"))
    if not base and not head and len(_newest(project.name)) < 2:
        return None
    head_commit = find(project, head) if head else queries.newest_measured(store(), project.name, ())
    if head_commit is None:
        raise NoSideError("No commit has results yet.")
    base_commit = find(project, base) if base else _before(project.name, head_commit)
    return Sides(
        by=ComparedBy.COMMIT,
        base_commit=base_commit,
        head_commit=head_commit,
        all_metrics=request.args.get("metrics") == "all",
    )


def _before(project: str, head: Commit) -> Commit:
    """The newest commit that one of its machines measured before `head`, else the commit before it.

    Raises NoSideError.
    """
    before = [run.before for run in queries.measured_on(store(), project, head.hash) if run.before is not None]
    base = max(before, key=lambda commit: commit.position, default=None)
    base = base or queries.between(store(), project, head, head).head_older
    if base is None:
        raise NoSideError(f"No commit before {head.hash[:8]} has results.")
    return base


def measured_by(project: str, commit: Commit) -> set[str]:
    """The machines with results at a commit."""
    return {each.machine for each in queries.measured_on(store(), project, commit.hash)}


bp = Blueprint("compare", __name__, url_prefix="/<project:project>/compare")

_ROWS_OF_A_PAGE = 100
_CHOICES = 100  # newest commits
MIN_CHANGES = ("1", "2", "5", "10", "25")  # per cent


@bp.get("")
def show(project: str) -> ResponseReturnValue:
    """The comparison in the URL, or a form; redirects to the URL with all defaults."""
    current = project_or_404(project)
    try:
        sides = sides_of(current)
    except NoSideError as error:
        return _page(current, complaint=str(error)), 404
    if sides is None:
        return _page(current)
    named = {name: value for name, value in sides.names.items() if value}
    if any(request.args.get(name, "") != value for name, value in named.items()):
        query = urlencode({**request.args.to_dict(), **named})
        return redirect(f"{url_for('.show', project=project)}?{query}")
    compared = sides.compared(current.name)
    if request.args.get("format") == "markdown":
        return Response(as_markdown(compared.comparison), mimetype="text/markdown")
    row_filter = _filter(current.name, compared)
    filtered = apply(row_filter, compared.rows, compared.columns)
    pager = pagination(_ROWS_OF_A_PAGE, len(filtered.rows))
    return _page(
        current,
        sides=sides,
        compared=compared,
        row_filter=row_filter,
        filtered=filtered,
        groups=filtered.groups if not row_filter.kernel and len(compared.kernels) > 1 else (),
        histogram=_histogram(current.name, sides, row_filter, filtered.all_matching),
        pagination=pager,
        rows=pager.of(filtered.rows),
        choices=_choices(compared),
        quiet=QUIET,
        between=queries.between(store(), current.name, sides.base_commit, sides.head_commit),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnHistogram:
    """The histogram of changes as JSON, and the number of rows that changed too little to be drawn."""

    figure: Markup
    within: int


def _histogram(
    project: str, sides: Sides, row_filter: ComparisonFilter, matching: ComparisonColumns
) -> DrawnHistogram | None:
    """Cached for all rows of a comparison; a reader may invent filters."""

    def draw() -> DrawnHistogram | None:
        histogram = change_histogram(matching, is_of_commits=sides.by is ComparedBy.COMMIT)
        return DrawnHistogram(figure=page_json(histogram.figure), within=histogram.within) if histogram else None

    if row_filter.is_active:
        return draw()
    named = (sides.by, sides.base_commit.hash, sides.head_commit.hash, sides.base, sides.head, sides.all_metrics)
    return store().cached(
        project, ("change histogram", *named), draw, size=lambda drawn: len(drawn.figure) if drawn is not None else 0
    )


@bp.get("/row")
def row(project: str) -> ResponseReturnValue:
    """Details of one row: samples, history, compiled code, command; `part=1` returns the fragment only."""
    current = project_or_404(project)
    try:
        sides = sides_of(current)
    except NoSideError as error:
        abort(404, str(error))
    compared = sides.compared(current.name) if sides is not None else None
    key = request.args.get("series", "")
    base_key = request.args.get("against", "") or key
    rows = compared.rows if compared is not None else ()
    opened = next((row for row in rows if (row.series.key, _base_series(row).key) == (key, base_key)), None)
    if sides is None or compared is None or opened is None:
        abort(404, "The comparison has no such row.")
    template = "compare_part.html" if request.args.get("part") else "compare_row.html"
    return render_template(template, compared=compared, **_opened(current.name, sides, opened, compared))


def _opened(project: str, sides: Sides, row: ComparisonRow, compared: Compared) -> dict[str, Any]:
    series, against = (compared.series[side.key] for side in (row.series, _base_series(row)))
    unit = series.metric.unit
    base, head = sides.base_commit, sides.head_commit
    names = side_names(sides, row)
    samples = [
        (name, tuple(sample for run in queries.samples_at(store(), side.key, commit.hash) for sample in run))
        for name, side, commit in zip(names, (against, series), (base, head), strict=True)
    ]
    histories = [(names[1], queries.series_points(store(), series.key))]
    if against.key != series.key:
        histories.insert(0, (names[0], queries.series_points(store(), against.key)))
    chosen = [("base", base), ("head", head)] if base != head else [("compared", head)]
    difference = None
    if sides.by is ComparedBy.COMMIT and series.workload:
        codes = [queries.compiled_at(store(), project, commit.hash, operator=row.kernel) for commit in (base, head)]
        if any(codes):
            difference = compiled_difference(*(_code_of(series.implementation, side) for side in codes))
    is_gate = sides.by is ComparedBy.COMMIT and base != head
    command = gate_command(series, base, head) if is_gate else asv_command(series, head)
    return {
        "sides": sides,
        "row": row,
        "series": series,
        "against": against,
        "samples": samples_of(samples, unit),
        "recent": recent_figure(histories, chosen, unit),
        "difference": difference,
        "command": command,
    }


def _code_of(implementation: str | None, codes: Any) -> list[Any]:
    """Compiled code of one implementation, and code without a recorded implementation."""
    return [code for code in codes if code.implementation in {None, implementation}]


def side_names(sides: Sides, row: ComparisonRow) -> tuple[str, str]:
    """Labels of base and head in figures."""
    if sides.by is ComparedBy.COMMIT:
        return f"base {sides.base_commit.hash[:8]}", f"head {sides.head_commit.hash[:8]}"
    base_series = _base_series(row)
    if sides.by is ComparedBy.MACHINE:
        return base_series.machine, row.series.machine
    return base_series.implementation or "", row.series.implementation or ""


def _base_series(row: ComparisonRow) -> SeriesSchema:
    return row.base_series or row.series


def _page(project: Project, **shown: Any) -> str:
    is_choosing = shown.get("sides") is None
    by = compared_by() if is_choosing else shown["sides"].by
    workloads = queries.project_workloads(store(), project.name).values()
    # The form keeps the input, so that users can correct it.
    named = {name: request.args.get(name, "") for name in ("base", "head", "commit")}
    return render_template(
        "compare.html",
        **{"complaint": None, "sides": None, "compared": None, **shown},
        by=by,
        named=named,
        newest=_newest(project.name),
        machines=[machine.name for machine in queries.machines(store(), project.name)],
        ours=sorted({name for workload in workloads for name in workload.kernels}),
        rivals=sorted({name for workload in workloads for name in workload.baselines}),
        has_kernels=bool(workloads),
        min_changes=MIN_CHANGES,
        leaderboard=_leaderboard(project.name) if is_choosing and by is ComparedBy.IMPLEMENTATION else (),
        headlines=headlines_of(project.name) if is_choosing and by is ComparedBy.IMPLEMENTATION else (),
    )


@cached()
def _leaderboard(project: str) -> tuple[KernelStanding, ...]:
    return leaderboard(store(), project, standings_of(project))


def _newest(project: str) -> tuple[Commit, ...]:
    return store().cached(
        project,
        "newest commits",
        lambda: queries.commits(store(), project, limit=_CHOICES),
        size=lambda commits: ROW_BYTES * len(commits),
    )


def _filter(project: str, compared: Compared) -> ComparisonFilter:
    args, words = request.args, search_query()
    percent = args.get("min", 0.0, type=float)
    return ComparisonFilter(
        kernel=args.get("kernel", ""),
        machine=args.get("machine", ""),
        dtype=args.get("dtype", ""),
        metric=args.get("metric", ""),
        min_change=percent / 100 if 0 < percent < 1e6 else 0.0,
        query=words,
        found=queries.matching(store(), project, words, compared.series.values()) if words else None,
        verdict=args.get("verdict", ""),
        show_all=args.get("show") == "all",
    )


def _choices(compared: Compared) -> dict[str, list[tuple[str, str]]]:
    """Options of each filter: values and labels."""
    return {
        "kernel": [(name, name) for name in compared.kernels],
        "machine": [(name, name) for name in compared.machines],
        "dtype": [(name, name) for name in compared.dtypes],
        "metric": list({metric.name: metric.label for metric in compared.metrics}.items()),
    }
