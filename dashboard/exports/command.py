"""`warpwatch export`: every measurement of a project as CSV, JSON or Parquet, or the dashboard as static files."""

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeVar

import click
from click.core import ParameterSource

from warpwatch.dashboard.commands import choose_project
from warpwatch.dashboard.exit_status import FailedError, discard_stdout
from warpwatch.dashboard.exports.changes import write_changes_csv, write_changes_json, write_changes_parquet
from warpwatch.dashboard.exports.text_files import write_csv, write_json
from warpwatch.dashboard.opening import open_store
from warpwatch.dashboard.output import OutputFile
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.measured import Measured
from warpwatch.dashboard.store.records import Regression

_Writer = Callable[[Iterable[Measured], BinaryIO], int]
_Row = TypeVar("_Row", Measured, Regression)
_TextWriter = Callable[[Iterable[Measured], TextIO], int]

# Parameters of `export` that mean something without --site alone, and with it alone.
_OF_ROWS = ("layout", "output", "machine", "benchmark", "metric", "since", "of_changes")
_OF_SITES = ("newest", "which", "images")


@click.command()
@click.option("--format", "layout", type=click.Choice(["csv", "json", "parquet"]), default="csv", show_default=True)
@click.option("--output", type=OutputFile(), help="Write there instead of to stdout.")
@click.option("--project", "names", multiple=True, metavar="NAME",
              help="Needed where the store holds several; with --site it may be repeated.")  # fmt: skip
@click.option("--machine", metavar="NAME", help="Only this machine.")
@click.option("--benchmark", default="", metavar="TEXT", help="Only benchmarks whose name holds it.")
@click.option("--metric", metavar="NAME", help="Only this metric: latency, say.")
@click.option("--since", type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]), metavar="DATE",
              help="Only commits of that day (UTC) and later.")  # fmt: skip
@click.option("--changes", "of_changes", is_flag=True, help="What was found instead of what was measured, a row each.")
@click.option("--site", "folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
              help="Write the dashboard there as static files instead.")  # fmt: skip
@click.option("--commits", "newest", type=click.IntRange(1), default=200, show_default=True, metavar="N",
              help="Of a site: the newest N commits of a project get pages.")  # fmt: skip
@click.option("--series", "which", type=click.Choice(["overview", "judged", "all"]), default="overview",
              show_default=True,
              help="Of a site: which get pages, the overview's, all of ours that are judged, or all.")  # fmt: skip
@click.option("--images", is_flag=True, help="Of a site: also badges and pictures of every such series, for READMEs.")
@click.option("--database", metavar="URL", help="sqlite:///PATH or postgresql://…; WARPWATCH_DATABASE.")
@click.pass_context
def export(
    context: click.Context, layout: str, output: Path | None, names: tuple[str, ...], machine: str | None,
    benchmark: str, metric: str | None, since: datetime | None, of_changes: bool, folder: Path | None, newest: int,
    which: str, images: bool, database: str | None,
) -> None:  # fmt: skip
    """Write every measurement, a row each: what, where, when, value, quartiles, status.

    Values are as recorded, in the row's unit; the columns are explained in dashboard/README.md. With --changes a row is
    a step, a state of the machine, a transient or a drift. A file is there whole or not at all.

    With --site the dashboard is written as a folder of static files: pages with relative links, their data as JSON and
    CSV. Search and filters need a server and are left out; a link to a page that is not exported is plain text. The
    folder works at any path of a site, and from a disk.
    """
    _refuse_options(context, _OF_ROWS if folder is not None else _OF_SITES, with_site=folder is not None)
    if folder is not None:
        from warpwatch.dashboard.site.command import export_site  # the application, which rows do not need

        export_site(folder, names, newest, which, images, database)
        return
    if len(names) > 1:
        raise click.UsageError("give one --project; only --site takes several")
    if layout == "parquet" and output is None and sys.stdout.isatty():
        raise click.ClickException("Parquet is not for a terminal; give --output FILE, or redirect it")
    write = _writer(layout)
    store = open_store(database)
    chosen = choose_project(store, names[0] if names else None)
    only: dict[str, Any] = {
        "benchmark": benchmark, "metric": metric, "machine": machine,
        "since": since.replace(tzinfo=UTC) if since else None,
    }  # fmt: skip
    with _opened(output) as out:
        if of_changes:
            rows = _write_changes(layout, queries.changes(store, chosen.name, **only), out)
        else:
            rows = write(queries.measurements(store, chosen.name, **only), out)
    if output is not None or rows == 0:
        click.echo(
            f"{rows} {'changes' if of_changes else 'measurements'} of {chosen.name}"
            + (f" in {output}" if output else ""),
            err=True,
        )


def _refuse_options(context: click.Context, names: Iterable[str], *, with_site: bool) -> None:
    """Raises a click error for an option that would have no effect."""
    for parameter in context.command.params:
        is_given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if parameter.name in names and is_given:
            raise click.UsageError(f"{parameter.opts[0]} has no effect {'with' if with_site else 'without'} --site")


def _writer(layout: str) -> _Writer:
    """Raises a click error that names what to install, before anything is opened."""
    if layout != "parquet":
        write = write_csv if layout == "csv" else write_json
        return lambda found, out: _as_text(write, found, out)
    try:
        from warpwatch.dashboard.exports.parquet import write_parquet
    except ModuleNotFoundError as error:
        raise click.ClickException("Parquet wants pyarrow: pip install 'warpwatch[export]'") from error
    return write_parquet


def _write_changes(layout: str, found: Iterable[Regression], out: BinaryIO) -> int:
    if layout == "parquet":
        return write_changes_parquet(found, out)
    return _as_text(write_changes_csv if layout == "csv" else write_changes_json, found, out)


def _as_text(write: Callable[[Iterable[_Row], io.TextIOWrapper], int], found: Iterable[_Row], out: BinaryIO) -> int:
    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    try:
        return write(found, text)
    finally:
        text.flush()
        text.detach()


@contextmanager
def _opened(output: Path | None) -> Iterator[BinaryIO]:
    """Stdout, or a file beside `output` that takes its name once it is complete."""
    part = output.with_name(f"{output.name}.{os.getpid()}.part") if output else None
    try:
        if part is None or output is None:
            yield sys.stdout.buffer
        else:
            with part.open("wb") as out:
                yield out
            part.replace(output)
    except BrokenPipeError:
        raise  # whoever read has seen enough; click ends quietly
    except OSError as error:
        if output is None:
            discard_stdout()
        raise FailedError(f"cannot write {output or 'to stdout'}: {error.strerror or error}") from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)
