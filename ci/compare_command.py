"""`warpwatch compare`: two commits, machines, implementations or builds compared, as the compare page shows them."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from warpwatch.ci.code import text as code_text
from warpwatch.ci.code.comparison import compare_code
from warpwatch.ci.code.facts import CodeFileError, read_facts
from warpwatch.dashboard import comparing
from warpwatch.dashboard.check_text import drift_line, row_cells, row_json
from warpwatch.dashboard.code_span import code_span
from warpwatch.dashboard.commands import choose_project, recorded_commit
from warpwatch.dashboard.comparing import By, Compared, ComparedRow
from warpwatch.dashboard.narrowing import QUIET
from warpwatch.dashboard.opening import CannotTellError, open_store, read_settings
from warpwatch.dashboard.output import OutputFile, table_width, write
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.records import Project
from warpwatch.dashboard.text_table import text_table

_HEADER = ("verdict", "series", "base", "head", "change", "95 % interval", "")
_GROUPS = {"baselines": "", "ours": ""}


@click.command()
@click.argument("base")
@click.argument("head")
@click.option("--by", type=click.Choice([each.value for each in By]), default="commit", show_default=True,
              help="What BASE and HEAD are.")  # fmt: skip
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
    base: str, head: str, by: str, code: bool, commit: str | None, all_metrics: bool, project: str | None, layout: str,
    output: Path | None, database: str | None,
) -> None:  # fmt: skip
    """Show how HEAD differs from BASE: two commits, machines or implementations, or with --code two builds.

    Of implementations, `baselines` is every baseline and `ours` every kernel of ours. --code needs no store and no GPU.
    Exit status: 0, whatever differs; 2 where a side is unknown or a file cannot be read.
    """
    if code:
        write(_compared_code(Path(base), Path(head), layout), output)
        return
    store = open_store(database)
    found = _compared(store, choose_project(store, project), By(by), (base, head), commit, all_metrics)
    counts = Counter(row.judged.verdict.value for row in found.rows)
    if layout == "json":
        write(_as_json(found, (base, head), counts), output)
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
    store: Store, project: Project, by: By, sides: tuple[str, str], commit: str | None, all_metrics: bool
) -> Compared:  # fmt: skip
    threshold = read_settings().threshold
    if by is By.COMMIT:
        ends = [recorded_commit(store, project, side) for side in sides]
        return comparing.compare_commits(store, project.name, *ends, threshold=threshold, all_metrics=all_metrics)
    is_machine = by is By.MACHINE
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
        return comparing.compare_machines(store, project.name, at, *sides, threshold=threshold)
    base, head = (_GROUPS.get(side, side) for side in sides)
    return comparing.compare_implementations(store, project.name, at, base, head, threshold=threshold)


def _as_text(found: Compared, sides: tuple[str, str], counts: Counter[str], is_markdown: bool, width: int) -> str:
    title = f"{found.project} {found.head.hash[:8]}: {found.by} {sides[0]} → {sides[1]}"
    shown = [_cells(row) for row in found.rows if row.judged.verdict not in QUIET]
    told = ", ".join(f"{number} {verdict}" for verdict, number in counts.items()) or "nothing in common"
    notes = [f"{told}; changes from {found.threshold * 100:g} % on matter.", *map(drift_line, found.drifts)]
    if is_markdown:
        marked = [[cell.replace("|", "\\|") for cell in (row[0], code_span(row[1]), *row[2:])] for row in shown]
        table = ["| " + " | ".join(row) + " |" for row in (_HEADER, ["---"] * len(_HEADER), *marked)]
        return "\n".join([f"### {code_span(title)}", "", *table * bool(shown), "", *notes])
    table = [text_table(_HEADER, shown, align="llrrrrl", width=width, shrink=1), ""] if shown else []
    return "\n".join([title, "", *table, *notes])


def _cells(row: ComparedRow) -> Sequence[str]:
    rival = row.against.implementation if row.against.machine == row.series.machine else row.against.machine
    against = f" against {rival}" if row.against.key != row.series.key else ""
    return row_cells(row.judged, f"{row.series.title} on {row.series.machine}{against}")


def _as_json(found: Compared, sides: tuple[str, str], counts: Counter[str]) -> str:
    data = {
        "schema": 1, "project": found.project, "by": found.by.value, "base": sides[0], "head": sides[1],
        "base_commit": found.base.hash, "head_commit": found.head.hash, "threshold": found.threshold,
        "counts": counts,
        "series": [{**row_json(row.judged), "against": row.against.key} for row in found.rows],
    }  # fmt: skip
    return json.dumps(data, indent=2, ensure_ascii=False)
