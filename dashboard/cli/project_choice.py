"""Which project and commit a command's options name."""

from ..importers.commit_names import named_commit
from ..model.series import Commit, Project
from ..store import Store, queries
from .store_access import CannotTellError


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
