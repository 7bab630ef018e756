"""Settings and store of a command, and its errors."""

import click
from sqlalchemy.exc import OperationalError

from ..importers.project_history import named_commit
from ..model.series import Commit, Project
from ..settings import Settings
from ..store import Store, StoreError
from .output import FailedError

_DISK_FULL = "53100"  # PostgreSQL's code


class CannotTellError(click.ClickException):
    """The command has no result (exit status 2)."""

    exit_code = 2


def read_settings() -> Settings:
    """Settings from the environment. Raises a click error."""
    try:
        return Settings.from_env()
    except ValueError as error:
        raise CannotTellError(str(error)) from error


def database_failed(error: OperationalError, *, to_go_on: str) -> click.ClickException:
    """The error of a command whose database fails; completed parts of its work are stored."""
    message = str(error.orig).strip().splitlines()[0]
    is_full = "disk is full" in message or getattr(error.orig, "sqlstate", None) == _DISK_FULL
    first = "free some disk space, then " if is_full else ""
    return FailedError(f"the database failed: {message}. Completed work is stored; {first}{to_go_on}")


def open_store(database: str | None) -> Store:
    """Open the store at this URL, by default the settings'; it must exist. Raises a click error."""
    return _open(database, create=False)


def open_or_create_store(database: str | None) -> Store:
    """Like `open_store`, but creates a missing store."""
    return _open(database, create=True)


def _open(database: str | None, *, create: bool) -> Store:
    try:
        return Store(database or read_settings().database, create=create)
    except StoreError as error:
        raise CannotTellError(str(error)) from error


def choose_project(store: Store, name: str | None) -> Project:
    """The project with this name, or the only one. Raises a click error that lists the projects."""
    from ..store import queries  # slow to import, and `warpwatch import` needs none

    projects = queries.projects(store)
    names = ", ".join(project.name for project in projects) or "none"
    if name is None and len(projects) == 1:
        return projects[0]
    if name is None:
        raise CannotTellError(f"several projects or none: {names}. Give --project")
    named = next((project for project in projects if project.name == name), None)
    if named is None:
        raise CannotTellError(f"no project {name!r} in the store; it holds: {names}")
    return named


def recorded_commit(store: Store, project: Project, name: str) -> Commit:
    """The recorded commit of a hash, a branch or a tag. Raises a click error that names the newest ones."""
    from ..store import queries

    try:
        commit, full = named_commit(store, project, name)
    except queries.AmbiguousCommitError as error:
        raise CannotTellError(str(error)) from error
    if commit is not None:
        return commit
    newest = ", ".join(commit.hash[:8] for commit in queries.commits(store, project.name, limit=3)) or "none"
    if full:
        raise CannotTellError(
            f"{name} is {full[:8]}, which has no results in {project.name}; the newest with results: {newest}"
        )
    raise CannotTellError(
        f"no commit {name!r} in {project.name}; the newest with results: {newest}. Give a branch, a tag, or at "
        "least 7 digits of a hash"
    )
