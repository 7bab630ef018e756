"""The last step of an import: the project's commits in their order, and its releases."""

from pathlib import Path

from warpwatch.dashboard.commit_links import commit_url_of
from warpwatch.dashboard.importers.asv_folder import NoResultsError, asv_project
from warpwatch.dashboard.importers.git_history import GitError, git, git_history
from warpwatch.dashboard.importers.releases import releases
from warpwatch.dashboard.store.annotations import keep_releases
from warpwatch.dashboard.store.ordering import commit_hashes, keep_commit_url, order_commits
from warpwatch.dashboard.store.store import Store
from warpwatch.dashboard.store.writing import ProjectWriter


def put_in_order(store: Store, writer: ProjectWriter, *, commit_url: str | None = None) -> list[str]:
    """Sorts the commits by the project's repository; without one that answers, by date. Returns what went wrong.

    `commit_url` is where commits are read, if the results state it; else the repository may.
    """
    stated = commit_url or (_commit_url(Path(writer.repository)) if writer.repository is not None else None)
    if stated is not None:
        keep_commit_url(store, writer.project, writer.project_id, stated)
    hashes = commit_hashes(store, writer.project_id)
    if writer.repository is None:
        order_commits(store, writer.project, writer.project_id, ())
        return []
    try:
        history = git_history(Path(writer.repository), hashes)
    except GitError as error:
        order_commits(store, writer.project, writer.project_id, ())
        return [f"{writer.repository}: {error}; commits are ordered by date"]
    order_commits(store, writer.project, writer.project_id, history)
    keep_releases(store, writer.project, releases(Path(writer.repository), history, hashes))
    return []


def _commit_url(repository: Path) -> str | None:
    """As the repository's asv.conf.json states it, else by where the repository was cloned from."""
    try:
        stated = asv_project(repository / "asv.conf.json").commit_url
    except NoResultsError:
        stated = None
    if stated is not None:
        return stated
    try:
        return commit_url_of(git(repository, "config", "--get", "remote.origin.url").strip())
    except GitError:
        return None
