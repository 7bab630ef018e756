"""`warpwatch import`; loads few modules, since it runs after each measured commit."""

import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor
from contextlib import contextmanager
from pathlib import Path

import click
from sqlalchemy.exc import OperationalError

from ..analysis.series_analysis import analyse
from ..executors import NoClusterError, cluster
from ..importers.archive import ArchiveError
from ..importers.asv_folder import NoResultsError
from ..importers.import_path import import_path
from ..importers.input_files import ImportOverrides, milliseconds
from ..store.rejected_files import record_rejected_files
from .output import database_option
from .store_access import database_failed, open_or_create_store

SET_ASIDE = 3  # exit status of an import with rejected files


@click.command("import")
@click.argument("results", type=click.Path(path_type=Path))
@click.option("--project", metavar="NAME", help="Default: asv.conf.json's project, else the folder's name.")
@click.option("--commit", metavar="HASH", help="Measured commit, for formats that do not record it (not asv's).")
@click.option("--date", metavar="DATE", help="Date of the commit, if there is no repository; ISO 8601.")
@click.option("--machine", metavar="NAME", help="Name of the machine, instead of the file's (not asv's).")
@click.option(
    "--repository",
    metavar="PATH",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Git repository for commit order and subjects; default: asv.conf.json's, if it is a local one.",
)
@database_option
@click.option(
    "--executor",
    metavar="ADDRESS",
    envvar="WARPWATCH_EXECUTOR",
    help="Analyse on a Dask cluster, such as tcp://host:8786, instead of this machine's cores; WARPWATCH_EXECUTOR.",
)
def import_(
    results: Path,
    project: str | None,
    commit: str | None,
    date: str | None,
    machine: str | None,
    repository: Path | None,
    database: str | None,
    executor: str | None,
) -> None:
    """Add results to the history: a folder, a file, or an archive of them (.zip, .tar, .tar.gz, .tar.zst).

    Formats: asv (a results folder, or one with asv.conf.json), and JSON of pytest-benchmark, NVBench and Google
    Benchmark, recognised by content. Files that are in already are skipped, so imports may be repeated, and killed at
    any time. A file that cannot be read is named and set aside, and the exit status is 3.
    """
    try:
        overrides = ImportOverrides(commit=commit, date_ms=milliseconds(date) if date else None, machine=machine)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--date") from error
    store = open_or_create_store(database)
    show = _progress("reading", "files")
    try:
        summary = import_path(
            store, results, project=project, repository=repository, overrides=overrides, progress=show
        )
    except (NoResultsError, ArchiveError) as error:
        raise click.ClickException(str(error)) from error
    except OperationalError as error:
        raise database_failed(error, to_go_on="import again to add the rest") from error
    try:
        record_rejected_files(
            store, summary.project, str(results.resolve()), summary.set_aside, now_ms=time.time_ns() // 1_000_000
        )
        with _workers(executor) as workers:
            analysed = analyse(store, workers=workers, progress=lambda done: _progress("analysing", "series")(done, 0))
    except OperationalError as error:
        raise database_failed(error, to_go_on="import again to add the rest") from error
    except BrokenExecutor as error:
        raise click.ClickException(
            "a process of the analysis was killed, perhaps for lack of memory. The values are imported; "
            "import again to analyse the rest"
        ) from error
    _clear_progress()
    for line in (*summary.warnings, *(f"set aside: {line}" for line in summary.set_aside)):
        click.echo(f"warning: {line}", err=True)
    click.echo(
        f"{summary.project}: {summary.points} new points from {summary.files - summary.unchanged} files, "
        f"{summary.unchanged} files unchanged, {len(summary.set_aside)} set aside; {analysed} series analysed"
    )
    if summary.set_aside:
        sys.exit(SET_ASIDE)


@contextmanager
def _workers(address: str | None) -> Iterator[tuple[Executor, int] | None]:
    """The cluster at an address; None without one."""
    if address is None:
        yield None
        return
    try:
        with cluster(address) as workers:
            yield workers
    except NoClusterError as error:
        raise click.ClickException(f"{error}. The values are imported; import again to analyse them") from error


def _progress(doing: str, what: str) -> Callable[[int, int], None]:
    """Show progress on one line of a terminal."""

    def show(done: int, total: int) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{doing}: {done}{f' of {total}' if total else ''} {what}", nl=False, err=True)

    return show


def _clear_progress() -> None:
    if sys.stderr.isatty():
        click.echo("\r\033[K", nl=False, err=True)
