"""Project and commit of a command's options."""

from ..importers.project_history import named_commit
from ..model.series import Commit, Project
from ..store import Store, queries
from .store_access import CannotTellError


def choose_project(store: Store, name: str | None) -> Project:
    """The project with this name, or the only one. Raises a click error that lists the projects."""
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
