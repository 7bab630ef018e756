"""`warpwatch compare`: compares two commits, machines, implementations or builds, as the compare page does."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from warpwatch.dashboard.analysis import compare_sides
from warpwatch.dashboard.cli.output import database_option, output_option, project_option, table_width, write
from warpwatch.dashboard.cli.store_access import (
    CannotTellError,
    choose_project,
    open_store,
    read_settings,
    recorded_commit,
)
from warpwatch.dashboard.model.comparison import ComparedBy, Comparison, ComparisonRow
from warpwatch.dashboard.model.series import Project
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.text.comparison_labels import drift_sentence, threshold_note
from warpwatch.dashboard.text.comparison_report import as_json, row_cells
from warpwatch.dashboard.text.markdown import code_span
from warpwatch.dashboard.text.tables import text_table
from warpwatch.dashboard.web.comparison_filter import QUIET

from . import code_report
from .code_comparison import CodeFileError, compare_code, read_facts

_HEADER = ("verdict", "series", "base", "head", "change", "95 % interval", "")
_GROUPS = {"baselines": "", "ours": ""}


@click.command()
@click.argument("base")
@click.argument("head")
@click.option(
    "--by",
    type=click.Choice([each.value for each in ComparedBy]),
    default="commit",
    show_default=True,
    help="Kind of BASE and HEAD.",
)
@click.option("--code", is_flag=True, help="Compare two files of `python -m perf_suite.compiled`.")
@click.option(
    "--commit", metavar="NAME", help="Commit for machines and implementations; default: the newest measured one."
)
@click.option("--all-metrics", is_flag=True, help="Of commits: compare every metric, not only times.")
@project_option
@click.option(
    "--format", "layout", type=click.Choice(["table", "json", "markdown"]), default="table", show_default=True
)
@output_option
@database_option
def compare(
    base: str,
    head: str,
    by: str,
    code: bool,
    commit: str | None,
    all_metrics: bool,
    project: str | None,
    layout: str,
    output: Path | None,
    database: str | None,
) -> None:
    """Compare two commits, machines or implementations, or with --code two builds.

    Of implementations, `baselines` means every baseline and `ours` all others. --code needs no store and no GPU. Exit
    status: 0 compared, 2 unknown side or unreadable file.
    """
    if code:
        write(_code_report(Path(base), Path(head), layout), output)
        return
    store = open_store(database)
    chosen = choose_project(store, project)
    comparison = _comparison(store, chosen, ComparedBy(by), (base, head), commit, all_metrics)
    counts = Counter(row.verdict.value for row in comparison.rows)
    if layout == "json":
        write(as_json(comparison), output)
    else:
        write(_as_text(comparison, (base, head), counts, layout == "markdown", table_width(output) or 200), output)


def _code_report(base: Path, head: Path, layout: str) -> str:
    try:
        comparison = compare_code(read_facts(base), read_facts(head))
    except CodeFileError as error:
        raise CannotTellError(str(error)) from error
    if layout == "json":
        return comparison.model_dump_json(by_alias=True)
    return code_report.as_table(comparison) if layout == "table" else code_report.as_markdown(comparison)


def _comparison(
    store: Store, project: Project, by: ComparedBy, sides: tuple[str, str], commit: str | None, all_metrics: bool
) -> Comparison:
    threshold = read_settings().threshold
    if by is ComparedBy.COMMIT:
        ends = [recorded_commit(store, project, side) for side in sides]
        return compare_sides.compare_commits(
            store, project.name, *ends, threshold=threshold, all_metrics=all_metrics
        ).comparison
    is_machine = by is ComparedBy.MACHINE
    known = {machine.name for machine in queries.machines(store, project.name)} if is_machine else set(_GROUPS)
    known |= set() if is_machine else queries.implementations(store, project.name)
    for side in sides:
        if side not in known:
            raise CannotTellError(f"no {by} {side!r} in {project.name}; it has: {', '.join(sorted(known)) or 'none'}")
    at = recorded_commit(store, project, commit) if commit else None
    if is_machine:
        commits = (at, at) if at else queries.newest_of_machines(store, project.name, *sides)
        if commits is None:
            raise CannotTellError("one of the machines has no results")
        return compare_sides.compare_machines(store, project.name, commits, *sides, threshold=threshold).comparison
    at = at or queries.newest_measured(store, project.name, ())
    if at is None:
        raise CannotTellError("no commit has results")
    base, head = (_GROUPS.get(side, side) for side in sides)
    return compare_sides.compare_implementations(store, project.name, at, base, head, threshold=threshold).comparison


def _as_text(
    comparison: Comparison, sides: tuple[str, str], counts: Counter[str], is_markdown: bool, width: int
) -> str:
    is_named = comparison.by is ComparedBy.COMMIT  # by the sides
    ends = dict.fromkeys(commit.hash[:8] for commit in (comparison.base, comparison.head)[is_named:])
    title = f"{comparison.project} {' → '.join(ends)}: {comparison.by} {sides[0]} → {sides[1]}"
    rows = [_cells(row) for row in comparison.rows if row.verdict not in QUIET]
    verdicts = ", ".join(f"{number} {verdict}" for verdict, number in counts.items()) or "nothing in common"
    notes = [f"{verdicts}; {threshold_note(comparison.threshold, comparison.rows)}."]
    notes += map(drift_sentence, comparison.drifts)
    if is_markdown:
        marked = [[cell.replace("|", "\\|") for cell in (row[0], code_span(row[1]), *row[2:])] for row in rows]
        table = ["| " + " | ".join(row) + " |" for row in (_HEADER, ["---"] * len(_HEADER), *marked)]
        return "\n".join([f"### {code_span(title)}", "", *table * bool(rows), "", *notes])
    table = [text_table(_HEADER, rows, align="llrrrrl", width=width, shrink=1), ""] if rows else []
    return "\n".join([title, "", *table, *notes])


def _cells(row: ComparisonRow) -> Sequence[str]:
    base, against = row.base_series, ""
    if base is not None:
        against = f" against {base.implementation if base.machine == row.series.machine else base.machine}"
    return row_cells(row, f"{row.series.title} on {row.series.machine}{against}")
