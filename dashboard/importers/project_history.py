"""The last step of an import: the order of the project's commits, and its releases."""

import bisect
from collections.abc import Collection, Sequence
from pathlib import Path

from ..model.commit_links import commit_url_of
from ..store.commits import KnownCommit, commit_hashes, keep_commit_url, order_commits
from ..store.engine import Store
from ..store.notes import Release, keep_releases
from ..store.project_writer import ProjectWriter
from .asv_folder import NoResultsError, asv_project
from .git import GitError, git, git_history, tags

# The releases of a project: its repository's tags, each at the first measured commit that has it.

_MOST = 500  # the newest: what deploys several times a day has more tags than a figure has room


def releases(repository: Path, history: Sequence[KnownCommit], measured: Collection[str]) -> tuple[Release, ...]:
    """In the order of the history. Tags outside of it, or after the last measured commit, are passed over.

    Raises GitError.
    """
    place = {commit.hash: number for number, commit in enumerate(history)}
    with_results = sorted(place[commit] for commit in measured if commit in place)
    found = []
    for name, commit in tags(repository):
        at = place.get(commit, len(history))
        after = bisect.bisect_left(with_results, at)
        if after < len(with_results):
            release = Release(commit=history[with_results[after]].hash, name=name, date_ms=history[at].date_ms)
            found.append((at, release))
    return tuple(release for _, release in sorted(found, key=lambda one: (one[0], one[1].name))[-_MOST:])


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
