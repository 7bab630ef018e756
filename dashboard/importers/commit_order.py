"""The last step of an import: the project's commits in their order, and its releases."""

from pathlib import Path

from warpwatch.dashboard.importers.git_history import GitError, git_history
from warpwatch.dashboard.importers.releases import releases
from warpwatch.dashboard.store.annotations import keep_releases
from warpwatch.dashboard.store.ordering import commit_hashes, order_commits
from warpwatch.dashboard.store.store import Store
from warpwatch.dashboard.store.writing import ProjectWriter


def put_in_order(store: Store, writer: ProjectWriter) -> list[str]:
    """Sorts the commits by the project's repository; without one that answers, by date. Returns what went wrong."""
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
