"""`warpwatch benchstat A B`: reads two result sets, compares them, prints."""

import sys
from pathlib import Path

import click

from warpwatch.dashboard.benchstat import text
from warpwatch.dashboard.benchstat.compare_sets import compare_sets
from warpwatch.dashboard.benchstat.result_set import NoResultSetError, read_result_set
from warpwatch.dashboard.opening import read_settings
from warpwatch.dashboard.output import OutputFile, table_width, write

_WIDE = 1000


class _CannotCompare(click.ClickException):
    exit_code = 2


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--format", "layout", type=click.Choice(["table", "json", "csv"]), default="table")
@click.option("--benchmark", "search", default="", metavar="TEXT", help="Only rows whose name and values hold it.")
@click.option("--output", type=OutputFile(), help="Write there instead of printing.")
def benchstat(a: str, b: str, layout: str, search: str, output: Path | None) -> None:
    """Compare two result sets, without a store: levels, change, its interval and p.

    A and B are result files of asv, pytest-benchmark, NVBench or Google Benchmark (also .json.gz), folders of them, or
    - for stdin. Each file, or each of several JSON documents after another, is one run of its set; a folder of several
    commits is narrowed by PATH@COMMIT. A row's delta is ~ where it cannot be told from noise. Exit status: 0
    compared, 2 could not.
    """
    if a == b == "-":
        raise _CannotCompare("stdin can be one of the sets only; give a file or a folder for the other")
    try:
        sets = [read_result_set(given, sys.stdin.buffer) for given in (a, b)]
    except (NoResultSetError, ValueError) as error:
        raise _CannotCompare(str(error)) from error
    compared = compare_sets(*sets, threshold=read_settings().threshold, search=search)
    if not compared.rows:
        which = f" whose name or values hold {search!r}" if search else ""
        raise _CannotCompare(f"neither {a} nor {b} has a number of a benchmark{which}")
    written = {
        "table": lambda: text.as_table(compared, width=table_width(output) or _WIDE),
        "json": lambda: text.as_json(compared),
        "csv": lambda: text.as_csv(compared),
    }[layout]()
    write(written, output)
