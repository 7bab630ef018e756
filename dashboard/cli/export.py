"""`warpwatch export`: every measurement of a project as CSV, JSON or Parquet, or the dashboard as static files."""

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
from click.core import ParameterSource

from ..settings import AccessSettings
from ..store import Store, StoreError, queries
from ..store.queries.series_list import find_series
from .measurement_rows import write_changes_csv, write_changes_json, write_changes_parquet, write_csv, write_json
from .output import FailedError, database_option, discard_stdout, output_option
from .store_access import choose_project, open_store, read_settings

if TYPE_CHECKING:
    from ..web.site.site_files import SiteContent

_Writer = Callable[[Iterable[Any], BinaryIO], int]
_ALL_SERIES = 10_000_000

# Parameters that need --site to be absent, or present.
_OF_ROWS = ("layout", "output", "machine", "benchmark", "metric", "since", "of_changes")
_OF_SITES = ("newest", "which", "images")


@click.command()
@click.option("--format", "layout", type=click.Choice(["csv", "json", "parquet"]), default="csv", show_default=True)
@output_option
@click.option(
    "--project",
    "names",
    multiple=True,
    metavar="NAME",
    help="Needed if the store has several; with --site it may be repeated.",
)
@click.option("--machine", metavar="NAME", help="Only this machine.")
@click.option("--benchmark", default="", metavar="TEXT", help="Only benchmarks with this text in the name.")
@click.option("--metric", metavar="NAME", help="Only this metric, such as latency.")
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
    metavar="DATE",
    help="Only commits of that day (UTC) and later.",
)
@click.option("--changes", "of_changes", is_flag=True, help="Changes and episodes instead of measurements.")
@click.option(
    "--site",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write the dashboard there as static files instead.",
)
@click.option(
    "--commits",
    "newest",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    metavar="N",
    help="With --site: pages of the newest N commits of a project.",
)
@click.option(
    "--series",
    "which",
    type=click.Choice(["overview", "judged", "all"]),
    default="overview",
    show_default=True,
    help="With --site: pages of the overview's series, of all judged ones of ours, or of all.",
)
@click.option("--images", is_flag=True, help="With --site: also badges and pictures of these series.")
@database_option
@click.pass_context
def export(
    context: click.Context,
    layout: str,
    output: Path | None,
    names: tuple[str, ...],
    machine: str | None,
    benchmark: str,
    metric: str | None,
    since: datetime | None,
    of_changes: bool,
    folder: Path | None,
    newest: int,
    which: str,
    images: bool,
    database: str | None,
) -> None:
    """Write every measurement, one row each: what, where, when, value, quartiles, status.

    Values are as recorded, in the row's unit; dashboard/README.md explains the columns. With --changes a row is a step,
    a machine state, a transient or a drift. Files are written whole or not at all.

    With --site the dashboard is written as static files: pages with relative links, data as JSON and CSV, without
    search and filters. Links to pages that are not exported become text. The folder works at any path, and from a disk.
    """
    _refuse_options(context, _OF_ROWS if folder is not None else _OF_SITES, with_site=folder is not None)
    if folder is not None:
        _export_site(folder, names, newest, which, images, database)
        return
    if len(names) > 1:
        raise click.UsageError("give one --project; only --site takes several")
    if layout == "parquet" and output is None and sys.stdout.isatty():
        raise click.ClickException("Parquet is not for a terminal; give --output FILE, or redirect it")
    write = _writer(layout, of_changes=of_changes)
    store = open_store(database)
    chosen = choose_project(store, names[0] if names else None)
    only: dict[str, Any] = {
        "benchmark": benchmark,
        "metric": metric,
        "machine": machine,
        "since": since.replace(tzinfo=UTC) if since else None,
    }
    with _opened(output) as out:
        rows = write((queries.changes if of_changes else queries.measurements)(store, chosen.name, **only), out)
    if output is not None or rows == 0:
        click.echo(
            f"{rows} {'changes' if of_changes else 'measurements'} of {chosen.name}"
            + (f" in {output}" if output else ""),
            err=True,
        )


def _refuse_options(context: click.Context, names: Iterable[str], *, with_site: bool) -> None:
    """Raise a click error for an option without effect."""
    for parameter in context.command.params:
        is_given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if parameter.name in names and is_given:
            raise click.UsageError(f"{parameter.opts[0]} has no effect {'with' if with_site else 'without'} --site")


def _writer(layout: str, *, of_changes: bool) -> _Writer:
    """The writer of measurements or of changes in this format. Raises a click error if pyarrow is missing."""
    if layout != "parquet":
        writers = {"csv": (write_csv, write_changes_csv), "json": (write_json, write_changes_json)}
        return partial(_as_text, writers[layout][of_changes])
    try:
        from .arrow import write_parquet
    except ModuleNotFoundError as error:
        raise click.ClickException("Parquet requires pyarrow: pip install 'warpwatch[export]'") from error
    return write_changes_parquet if of_changes else write_parquet


def _as_text(write: Callable[[Iterable[Any], io.TextIOWrapper], int], found: Iterable[Any], out: BinaryIO) -> int:
    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    try:
        return write(found, text)
    finally:
        text.flush()
        text.detach()


@contextmanager
def _opened(output: Path | None) -> Iterator[BinaryIO]:
    """Stdout, or a temporary file that is renamed to `output` when complete."""
    part = output.with_name(f"{output.name}.{os.getpid()}.part") if output else None
    try:
        if part is None or output is None:
            yield sys.stdout.buffer
        else:
            with part.open("wb") as out:
                yield out
            part.replace(output)
    except BrokenPipeError:
        raise  # click handles it
    except OSError as error:
        if output is None:
            discard_stdout()
        raise FailedError(f"cannot write {output or 'to stdout'}: {error.strerror or error}") from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


# --site: the whole dashboard as files, which loads the web application.


def _export_site(
    folder: Path, names: tuple[str, ...], newest: int, which: str, images: bool, database: str | None
) -> None:
    """Write the pages of the named projects and say how many files that are."""
    from ..web.app import create_app
    from ..web.site.site_files import SiteContent, write_site

    open_store(database).close()  # the application would create an empty one
    settings = read_settings()
    access = AccessSettings(requests_per_minute=0, secret_key=settings.access.secret_key)
    try:
        app = create_app(replace(settings, database=database or settings.database, access=access))
    except (StoreError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    store = app.extensions["store"]
    chosen = [choose_project(store, name).name for name in names or (None,)]
    choice = SiteContent(
        projects=frozenset(chosen),
        series=frozenset(key for name in chosen for key in _chosen_series(store, name, which)),
        commits=frozenset(commit.hash for name in chosen for commit in queries.commits(store, name, limit=newest)),
        has_all_series=which == "all",
    )
    undrawn = _draw(store, folder, choice) if images else []
    written = write_site(app, folder, choice, badges=images)
    store.close()
    for fault in (*undrawn, *written.faults):
        click.echo(f"left out: {fault}", err=True)
    click.echo(
        f"{written.files:,} files, {written.bytes / 1e6:,.1f} MB in {folder}, {written.seconds:.0f} s; look at it with"
        f" python -m http.server --directory {folder}"
    )


def _draw(store: Store, folder: Path, choice: "SiteContent") -> list[Path]:
    """Write the pictures; return those that could not be drawn. Raises a click error that names what to install."""
    from ..web.site.pictures import write_pictures

    try:
        return write_pictures(store, folder, choice)
    except RuntimeError as error:
        raise click.ClickException(
            "pictures need kaleido and Chromium or Chrome: pip install 'warpwatch[pictures]', and for example"
            " apt-get install chromium"
        ) from error


def _chosen_series(store: Store, project: str, which: str) -> list[str]:
    if which == "overview":
        return [row.series.key for row in queries.overview(store, project) if not row.was_never_there]
    found = find_series(store, project, limit=_ALL_SERIES)
    return [
        series.key
        for series in found.series
        if which == "all" or (series.listed and series.is_ours and series.metric.is_judged)
    ]
