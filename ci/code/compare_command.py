"""`warpwatch compare`: two commits, machines, implementations or builds compared, as the compare page shows them."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from warpwatch.dashboard.analysis import compare_sides
from warpwatch.dashboard.cli.output import OutputFile, table_width, write
from warpwatch.dashboard.cli.project_choice import choose_project, recorded_commit
from warpwatch.dashboard.cli.store_access import CannotTellError, open_store, read_settings
from warpwatch.dashboard.model.comparison import ComparedBy, Comparison, ComparisonRow
from warpwatch.dashboard.model.series import Project
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.text.comparison_labels import drift_sentence, threshold_note
from warpwatch.dashboard.text.comparison_report import as_json, row_cells
from warpwatch.dashboard.text.markdown import code_span
from warpwatch.dashboard.text.tables import text_table
from warpwatch.dashboard.web.comparison_filter import QUIET

from . import code_report as code_text
from .code_comparison import compare_code
from .compiled_facts import CodeFileError, read_facts

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
    help="What BASE and HEAD are.",
)
@click.option("--code", is_flag=True, help="They are files of compiled code, of `python -m perf_suite compiled`.")
@click.option("--commit", metavar="NAME", help="Of machines and implementations; default: the newest measured one.")
@click.option("--all-metrics", is_flag=True, help="Of commits: compare every metric, not times alone.")
@click.option("--project", metavar="NAME", help="Needed where the store holds several.")
@click.option(
    "--format", "layout", type=click.Choice(["table", "json", "markdown"]), default="table", show_default=True
)
@click.option("--output", type=OutputFile(), help="Write there instead of printing.")
@click.option("--database", metavar="URL", help="sqlite:///PATH or postgresql://…; WARPWATCH_DATABASE.")
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
    """Show how HEAD differs from BASE: two commits, machines or implementations, or with --code two builds.

    Of implementations, `baselines` is every baseline and `ours` every kernel of ours. --code needs no store and no GPU.
    Exit status: 0, whatever differs; 2 where a side is unknown or a file cannot be read.
    """
    if code:
        write(_compared_code(Path(base), Path(head), layout), output)
        return
    store = open_store(database)
    found = _compared(store, choose_project(store, project), ComparedBy(by), (base, head), commit, all_metrics)
    counts = Counter(row.verdict.value for row in found.rows)
    if layout == "json":
        write(as_json(found), output)
    else:
        write(_as_text(found, (base, head), counts, layout == "markdown", table_width(output) or 200), output)


def _compared_code(base: Path, head: Path, layout: str) -> str:
    try:
        found = compare_code(read_facts(base), read_facts(head))
    except CodeFileError as error:
        raise CannotTellError(str(error)) from error
    if layout == "json":
        return found.model_dump_json(by_alias=True)
    return code_text.as_table(found) if layout == "table" else code_text.as_markdown(found)


def _compared(
    store: Store, project: Project, by: ComparedBy, sides: tuple[str, str], commit: str | None, all_metrics: bool
) -> Comparison:
    threshold = read_settings().threshold
    if by is ComparedBy.COMMIT:
        ends = [recorded_commit(store, project, side) for side in sides]
        return compare_sides.compare_commits(
            store, project.name, *ends, threshold=threshold, all_metrics=all_metrics
        ).comparison
    is_machine = by is ComparedBy.MACHINE
    known = {each.name for each in queries.machines(store, project.name)} if is_machine else set(_GROUPS)
    known |= set() if is_machine else queries.implementations(store, project.name)
    for side in sides:
        if side not in known:
            raise CannotTellError(f"no {by} {side!r} in {project.name}; it has: {', '.join(sorted(known)) or 'none'}")
    newest = queries.newest_measured(store, project.name, sides if is_machine else ())
    at = recorded_commit(store, project, commit) if commit else newest
    if at is None:
        raise CannotTellError("no commit was measured on both machines" if is_machine else "no commit has results")
    if is_machine:
        return compare_sides.compare_machines(store, project.name, at, *sides, threshold=threshold).comparison
    base, head = (_GROUPS.get(side, side) for side in sides)
    return compare_sides.compare_implementations(store, project.name, at, base, head, threshold=threshold).comparison


def _as_text(found: Comparison, sides: tuple[str, str], counts: Counter[str], is_markdown: bool, width: int) -> str:
    title = f"{found.project} {found.head.hash[:8]}: {found.by} {sides[0]} → {sides[1]}"
    shown = [_cells(row) for row in found.rows if row.verdict not in QUIET]
    told = ", ".join(f"{number} {verdict}" for verdict, number in counts.items()) or "nothing in common"
    notes = [f"{told}; {threshold_note(found.threshold, found.rows)}.", *map(drift_sentence, found.drifts)]
    if is_markdown:
        marked = [[cell.replace("|", "\\|") for cell in (row[0], code_span(row[1]), *row[2:])] for row in shown]
        table = ["| " + " | ".join(row) + " |" for row in (_HEADER, ["---"] * len(_HEADER), *marked)]
        return "\n".join([f"### {code_span(title)}", "", *table * bool(shown), "", *notes])
    table = [text_table(_HEADER, shown, align="llrrrrl", width=width, shrink=1), ""] if shown else []
    return "\n".join([title, "", *table, *notes])


def _cells(row: ComparisonRow) -> Sequence[str]:
    base, against = row.base_series, ""
    if base is not None:
        against = f" against {base.implementation if base.machine == row.series.machine else base.machine}"
    return row_cells(row, f"{row.series.title} on {row.series.machine}{against}")
