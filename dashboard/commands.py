"""The dashboard's commands: `warpwatch import`, `check` and `report`. The group that lists them is ci/main.py."""

import sys
from collections.abc import Callable
from pathlib import Path

import click

from warpwatch.dashboard import check_text
from warpwatch.dashboard.analysis import analyse
from warpwatch.dashboard.check import check as run_check
from warpwatch.dashboard.importers.archive import ArchiveError
from warpwatch.dashboard.importers.asv_folder import NoResultsError
from warpwatch.dashboard.importers.git_history import resolve
from warpwatch.dashboard.importers.given import Given, milliseconds
from warpwatch.dashboard.importers.import_files import import_path
from warpwatch.dashboard.report_text import report_json, report_table
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.store import Store, StoreError, queries
from warpwatch.dashboard.store.records import Commit, Project

SET_ASIDE = 3  # exit status of an import that left files out

_database = click.option("--database", metavar="URL", help="sqlite:///PATH or postgresql://…; WARPWATCH_DATABASE.")
_project = click.option("--project", metavar="NAME", help="Needed where the store holds several.")
_machine = click.option("--machine", metavar="NAME", help="Only this machine.")


@click.command("import")
@click.argument("results", type=click.Path(path_type=Path))
@click.option("--project", metavar="NAME", help="Default: asv.conf.json's project, else the folder's name.")
@click.option("--commit", metavar="HASH", help="What was measured, for formats that do not record it (not asv's).")
@click.option("--date", metavar="DATE", help="When that was committed, if no repository tells; ISO 8601.")
@click.option("--machine", metavar="NAME", help="The machine's name, instead of the file's (not asv's).")
@click.option(
    "--repository", metavar="PATH", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Git repository for commit order and subjects; default: asv.conf.json's, if it is a local one.",
)  # fmt: skip
@_database
def import_(
    results: Path, project: str | None, commit: str | None, date: str | None, machine: str | None,
    repository: Path | None, database: str | None,
) -> None:  # fmt: skip
    """Add results to the history: a folder, a file, or an archive of them (.zip, .tar, .tar.gz, .tar.zst).

    Of asv a results folder, or one with asv.conf.json; of pytest-benchmark, NVBench and Google Benchmark their JSON,
    told by its content. What is in already is passed over, so it may be run as often as you like, and killed at any
    moment. A file that cannot be read is named and set aside while the rest goes in; then the exit status is 3.
    """
    try:
        given = Given(commit=commit, date_ms=milliseconds(date) if date else None, machine=machine)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--date") from error
    store = open_store(database)
    show = _progress("reading", "files")
    try:
        summary = import_path(store, results, project=project, repository=repository, given=given, progress=show)
    except (NoResultsError, ArchiveError) as error:
        raise click.ClickException(str(error)) from error
    analysed = analyse(store, progress=lambda done: _progress("analysing", "series")(done, 0))
    _clear_progress()
    for line in (*summary.warnings, *(f"set aside: {line}" for line in summary.set_aside)):
        click.echo(f"warning: {line}", err=True)
    click.echo(
        f"{summary.project}: {summary.points} new points from {summary.files - summary.unchanged} files, "
        f"{summary.unchanged} files unchanged, {len(summary.set_aside)} set aside; {analysed} series analysed"
    )
    if summary.set_aside:
        sys.exit(SET_ASIDE)


@click.command()
@click.argument("base")
@click.argument("head")
@_project
@_machine
@click.option("--all-metrics", is_flag=True, help="Judge every metric, not times alone.")
@click.option("--threshold", type=click.FloatRange(0, 1, min_open=True, max_open=True), metavar="SHARE",
              help="Smallest relative change that matters; default 0.02, or WARPWATCH_THRESHOLD.")  # fmt: skip
@click.option("--format", "layout", type=click.Choice(["table", "json", "markdown"]), default="table")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write there instead of printing.")
@_database
def check(
    base: str, head: str, project: str | None, machine: str | None, all_metrics: bool, threshold: float | None,
    layout: str, output: Path | None, database: str | None,
) -> None:  # fmt: skip
    """Compare two recorded commits and say what moved.

    BASE and HEAD are hashes, or branches and tags where the project's repository is known. Exit status: 0 unchanged or
    better, 1 regressed, 2 could not tell (also: an unknown commit, or nothing to compare).
    """
    settings = _settings()
    store = open_store(database)
    chosen = choose_project(store, project)
    result = run_check(
        store, chosen.name, _commit(store, chosen, base), _commit(store, chosen, head),
        threshold=threshold or settings.threshold, machine=machine, all_metrics=all_metrics,
    )  # fmt: skip
    writers = {"table": check_text.as_table, "json": check_text.as_json, "markdown": check_text.as_markdown}
    _write(writers[layout](result), output)
    sys.exit(int(result.outcome))


@click.command()
@_project
@_machine
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@_database
def report(project: str | None, machine: str | None, as_json: bool, database: str | None) -> None:
    """Print how fast everything is at the newest commit of each machine.

    Latency, bandwidth, throughput, share of the speed of light (SOL), and how often faster than each baseline.
    """
    store = open_store(database)
    if project is not None:
        choose_project(store, project)
    rows = queries.report(store, project=project, machine=machine)
    if as_json:
        _write(report_json(rows), None)
    elif rows:
        _write(report_table(rows), None)
    else:
        click.echo("nothing is recorded" + (f" on {machine}" if machine else "") + "; try: warpwatch import RESULTS")


class _CannotCompare(click.ClickException):
    """An error of `check`: it could not tell."""

    exit_code = 2


def _settings() -> Settings:
    try:
        return Settings.from_env()
    except ValueError as error:
        raise _CannotCompare(str(error)) from error


def open_store(database: str | None) -> Store:
    """The store at this address, or at the settings' one. Raises a click error that says what is wrong with it."""
    try:
        return Store(database or _settings().database)
    except StoreError as error:
        raise _CannotCompare(str(error)) from error


def choose_project(store: Store, name: str | None) -> Project:
    """The project of that name, or the only one. Raises a click error that lists what there is."""
    projects = queries.projects(store)
    names = ", ".join(project.name for project in projects) or "none"
    if name is None and len(projects) == 1:
        return projects[0]
    if name is None:
        raise _CannotCompare(f"which project? The store holds: {names}. Give --project")
    found = next((project for project in projects if project.name == name), None)
    if found is None:
        raise _CannotCompare(f"no project {name!r} in the store; it holds: {names}")
    return found


def _commit(store: Store, project: Project, name: str) -> Commit:
    """The recorded commit of a hash, a branch or a tag."""
    try:
        found = queries.find_commit(store, project.name, name)
    except queries.AmbiguousCommitError as error:
        raise _CannotCompare(str(error)) from error
    if found is not None:
        return found
    full = resolve(Path(project.repository), name) if project.repository else None
    found = queries.find_commit(store, project.name, full) if full else None
    if found is not None:
        return found
    newest = ", ".join(commit.hash[:8] for commit in queries.commits(store, project.name, limit=3)) or "none"
    if full:
        raise _CannotCompare(f"{name} is {full[:8]}, which has no results in {project.name}; the newest with: {newest}")
    raise _CannotCompare(f"no commit {name!r} in {project.name}; the newest that have results: {newest}")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text)
    else:
        output.write_text(text + "\n", encoding="utf-8")


def _progress(doing: str, what: str) -> Callable[[int, int], None]:
    """Shows a line that overwrites itself, on a terminal only."""

    def show(done: int, total: int) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{doing}: {done}{f' of {total}' if total else ''} {what}", nl=False, err=True)

    return show


def _clear_progress() -> None:
    if sys.stderr.isatty():
        click.echo("\r\033[K", nl=False, err=True)
