"""`warpwatch compare-code`: what a commit changed in compiled code, from files that two builds left."""

from pathlib import Path

import click

from warpwatch.ci.code.comparison import CodeComparison, compare_code
from warpwatch.ci.code.facts import CodeFileError, read_facts
from warpwatch.ci.code.text import as_markdown, as_table
from warpwatch.dashboard.opening import CannotTellError
from warpwatch.dashboard.output import OutputFile, write


def _as_json(comparison: CodeComparison) -> str:
    return comparison.model_dump_json(by_alias=True)


_WRITERS = {"table": as_table, "json": _as_json, "markdown": as_markdown}
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("compare-code")
@click.argument("base", type=_FILE)
@click.argument("head", type=_FILE)
@click.option("--format", "layout", type=click.Choice(list(_WRITERS)), default="table", show_default=True)
@click.option("--output", type=OutputFile(), help="Write there instead of printing.")
def compare_code_command(base: Path, head: Path, layout: str, output: Path | None) -> None:
    """What HEAD changed in BASE's compiled code, kernel by kernel and architecture by architecture.

    BASE and HEAD are files that `python -m perf_suite compiled` wrote. No GPU and no store are needed. Exit status: 0,
    whatever changed; 2 where a file is not such a file.
    """
    try:
        comparison = compare_code(read_facts(base), read_facts(head))
    except CodeFileError as error:
        raise CannotTellError(str(error)) from error
    text = _WRITERS[layout](comparison)
    write(text, output)
