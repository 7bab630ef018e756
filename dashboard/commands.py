"""`warpwatch report`, and which project and commit a command means. The group that lists the commands is ci/main.py."""

import click

from warpwatch.dashboard.named_commit import named_commit
from warpwatch.dashboard.opening import CannotTellError, open_store
from warpwatch.dashboard.output import write
from warpwatch.dashboard.report_text import report_json, report_table
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.records import Commit, Project

_database = click.option("--database", metavar="URL", help="sqlite:///PATH or postgresql://…; WARPWATCH_DATABASE.")
_project = click.option("--project", metavar="NAME", help="Needed where the store holds several.")
_machine = click.option("--machine", metavar="NAME", help="Only this machine.")


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
        write(report_json(rows), None)
    elif rows:
        write(report_table(rows), None)
    else:
        click.echo("nothing is recorded" + (f" on {machine}" if machine else "") + "; try: warpwatch import RESULTS")


def choose_project(store: Store, name: str | None) -> Project:
    """The project of that name, or the only one. Raises a click error that lists what there is."""
    projects = queries.projects(store)
    names = ", ".join(project.name for project in projects) or "none"
    if name is None and len(projects) == 1:
        return projects[0]
    if name is None:
        raise CannotTellError(f"which project? The store holds: {names}. Give --project")
    found = next((project for project in projects if project.name == name), None)
    if found is None:
        raise CannotTellError(f"no project {name!r} in the store; it holds: {names}")
    return found


def recorded_commit(store: Store, project: Project, name: str) -> Commit:
    """The recorded commit of a hash, a branch or a tag. Raises a click error that says what there is."""
    try:
        found, full = named_commit(store, project, name)
    except queries.AmbiguousCommitError as error:
        raise CannotTellError(str(error)) from error
    if found is not None:
        return found
    newest = ", ".join(commit.hash[:8] for commit in queries.commits(store, project.name, limit=3)) or "none"
    if full:
        seen = f"{name} is {full[:8]}, which has no results in {project.name}"
        raise CannotTellError(f"{seen}; the newest with: {newest}")
    raise CannotTellError(
        f"no commit {name!r} in {project.name}; the newest that have results: {newest}. Give a branch, a tag, or at "
        "least 7 digits of a hash"
    )
