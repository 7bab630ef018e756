"""Two sides compared: commits, machines or implementations; narrowed by what the URL says, each row to be opened."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from ...analysis.compare_sides import Compared
from ...analysis.next_measurement import asv_command, gate_command
from ...importers.commit_names import named_commit
from ...model.comparison import ComparedBy, ComparisonRow
from ...model.compiled_code import compiled_difference
from ...model.schema import SeriesSchema
from ...model.series import Commit, Project
from ...store import queries
from ..comparison_cache import compared_commits, compared_implementations, compared_machines
from ..comparison_filter import QUIET, Narrowing, narrow
from ..figures.samples import recent_figure, samples_of
from ..request_context import pages, project_or_404, store, words_asked

# The two sides that a compare page's URL names, found in the store; or the sentence that says why not.


class NoSideError(Exception):
    """A side is not there; the message is a sentence for the reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """What to compare. `base` and `head` are machines or implementations where no commits are compared."""

    by: ComparedBy
    base_commit: Commit
    head_commit: Commit
    base: str = ""
    head: str = ""
    all_metrics: bool = False

    @property
    def names(self) -> dict[str, str]:
        """As the URL has it, commits in full; what is empty stays out of it."""
        if self.by is ComparedBy.COMMIT:
            return {"base": self.base_commit.hash, "head": self.head_commit.hash}
        return {"by": self.by.value, "commit": self.head_commit.hash, "base": self.base, "head": self.head}

    def compared(self, project: str) -> Compared:
        """The comparison itself."""
        if self.by is ComparedBy.COMMIT:
            return compared_commits(project, self.base_commit, self.head_commit, all_metrics=self.all_metrics)
        judged = compared_machines if self.by is ComparedBy.MACHINE else compared_implementations
        return judged(project, self.head_commit, self.base, self.head)


def asked_by() -> ComparedBy:
    """What the URL wants compared."""
    asked = request.args.get("by", "")
    return ComparedBy(asked) if asked in set(ComparedBy) else ComparedBy.COMMIT


def asked_sides(project: Project) -> Sides | None:
    """What the URL names, with what it leaves open filled in; None where it has neither side, not even an empty one.

    Raises NoSideError.
    """
    asked = request.args.get("by", "")
    if asked and asked not in set(ComparedBy):
        raise NoSideError(f"Nothing is compared by “{asked}”: choose one of {', '.join(ComparedBy)}.")
    by = asked_by()
    if by is ComparedBy.COMMIT:
        return _commits(project)
    names = {name: request.args.get(name, "").strip() for name in ("base", "head", "commit")}
    if by is ComparedBy.MACHINE:
        machines = [machine.name for machine in queries.machines(store(), project.name)]
        for side in ("base", "head"):
            if names[side] and names[side] not in machines:
                raise NoSideError(f"No machine of {project.name} is called “{names[side]}”.")
        if not (names["base"] and names["head"]):
            return None
        together: Sequence[str] = (names["base"], names["head"])
    else:
        together = ()
        if not any(name in request.args for name in ("base", "head", "commit")):
            return None
        known = queries.implementations(store(), project.name)
        for side in ("base", "head"):
            if names[side] and names[side] not in known:
                raise NoSideError(f"No implementation of {project.name} is called “{names[side]}”.")
    commit = (
        find(project, names["commit"]) if names["commit"] else queries.newest_measured(store(), project.name, together)
    )
    if commit is None:
        raise NoSideError("No commit was measured on both machines." if together else "No commit has results yet.")
    return Sides(by=by, base_commit=commit, head_commit=commit, base=names["base"], head=names["head"])


def find(project: Project, name: str) -> Commit:
    """The commit of a hash, a shortened hash, a branch or a tag. Raises NoSideError."""
    try:
        found, full = named_commit(store(), project, name)
    except queries.AmbiguousCommitError as error:
        raise NoSideError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
    if found is not None:
        return found
    if full:
        raise NoSideError(f"“{name}” is commit {full[:8]}, which has no results in {project.name}.")
    raise NoSideError(
        f"No commit of {project.name} that has results is called “{name}”. "
        "Give a branch, a tag, or at least 7 digits of a hash."
    )


def _commits(project: Project) -> Sides | None:
    if not {"base", "head"} & set(request.args):
        return None
    base, head = (request.args.get(side, "").strip() for side in ("base", "head"))
    newest = queries.commits(store(), project.name, limit=1)
    if not newest:
        raise NoSideError("No commit has results yet.")
    head_commit = find(project, head) if head else newest[0]
    if base:
        base_commit = find(project, base)
    else:
        around = queries.between(store(), project.name, head_commit, head_commit)
        if around.head_older is None:
            raise NoSideError(f"No commit before {head_commit.hash[:8]} has results.")
        base_commit = around.head_older
    return Sides(
        by=ComparedBy.COMMIT,
        base_commit=base_commit,
        head_commit=head_commit,
        all_metrics=request.args.get("metrics") == "all",
    )


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
        found,
        sides=sides,
        compared=compared,
        narrowing=by,
        narrowed=narrowed,
        place=place,
        rows=place.of(narrowed.rows),
        choices=_choices(compared),
        quiet=QUIET,
        between=queries.between(store(), found.name, sides.base_commit, sides.head_commit),
    )


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
    opened = next((each for each in rows if (each.series.key, _base_series(each).key) == (asked, against)), None)
    if sides is None or compared is None or opened is None:
        abort(404, "These two sides have no such row.")
    template = "compare_part.html" if request.args.get("part") else "compare_row.html"
    return render_template(template, compared=compared, **_opened(found.name, sides, opened, compared))


def _opened(project: str, sides: Sides, row: ComparisonRow, compared: Compared) -> dict[str, Any]:
    series, against = (compared.series[each.key] for each in (row.series, _base_series(row)))
    unit = series.metric.unit
    base, head = sides.base_commit, sides.head_commit
    names = side_names(sides, row)
    samples = [
        (name, tuple(sample for run in queries.samples_at(store(), its.key, commit.hash) for sample in run))
        for name, its, commit in zip(names, (against, series), (base, head), strict=True)
    ]
    histories = [(names[1], queries.series_points(store(), series.key))]
    if against.key != series.key:
        histories.insert(0, (names[0], queries.series_points(store(), against.key)))
    chosen = [("base", base), ("head", head)] if base != head else [("compared", head)]
    difference = None
    if sides.by is ComparedBy.COMMIT and series.workload:
        codes = [queries.compiled_at(store(), project, commit.hash, operator=row.kernel) for commit in (base, head)]
        if any(codes):
            difference = compiled_difference(*(_of(series.implementation, each) for each in codes))
    again = gate_command(series, base, head) if base != head else asv_command(series, head)
    return {
        "sides": sides,
        "row": row,
        "series": series,
        "against": against,
        "samples": samples_of(samples, unit),
        "recent": recent_figure(histories, chosen, unit),
        "difference": difference,
        "command": again,
    }


def _of(implementation: str | None, codes: Any) -> list[Any]:
    """The compiled code of one implementation; code that does not say whose it is may be anyone's."""
    return [code for code in codes if code.implementation in {None, implementation}]


def side_names(sides: Sides, row: ComparisonRow) -> tuple[str, str]:
    """What base and head of a row are called on a figure."""
    if sides.by is ComparedBy.COMMIT:
        return f"base {sides.base_commit.hash[:8]}", f"head {sides.head_commit.hash[:8]}"
    base_series = _base_series(row)
    if sides.by is ComparedBy.MACHINE:
        return base_series.machine, row.series.machine
    return base_series.implementation or "", row.series.implementation or ""


def _base_series(row: ComparisonRow) -> SeriesSchema:
    return row.base_series or row.series


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
