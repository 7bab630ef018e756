"""Commits of a project's repository: their order and releases, and the commit of a branch, tag or hash."""

import bisect
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from ..model.commit_links import commit_url_of
from ..model.series import Commit, Project
from ..store.commits import KnownCommit, commit_hashes, order_commits, store_commit_url
from ..store.engine import Store
from ..store.notes import Release, replace_releases
from ..store.project_writer import ProjectWriter
from .asv_folder import NoResultsError, asv_project
from .git import GitError, git, git_history, resolve, tags
from .input_files import is_full_hash

_MOST = 500  # newest releases: frequent deployments make more tags than a figure can show


def releases(repository: Path, history: Sequence[KnownCommit], measured: Collection[str]) -> tuple[Release, ...]:
    """The repository's tags in the order of the history, each at the first measured commit that includes it.

    Tags outside of the history, or after the last measured commit, are skipped. Raises GitError.
    """
    index_of = {commit.hash: number for number, commit in enumerate(history)}
    with_results = sorted(index_of[commit] for commit in measured if commit in index_of)
    tagged = []
    for name, commit in tags(repository):
        index = index_of.get(commit, len(history))
        after = bisect.bisect_left(with_results, index)
        if after < len(with_results):
            release = Release(commit=history[with_results[after]].hash, name=name, date_ms=history[index].date_ms)
            tagged.append((index, release))
    return tuple(release for _, release in sorted(tagged, key=lambda one: (one[0], one[1].name))[-_MOST:])


def put_in_order(store: Store, writer: ProjectWriter, *, commit_url: str | None = None) -> list[str]:
    """Order the commits as in the project's repository, or by date without a readable one; return warnings.

    `commit_url`: URL prefix of commits, if the results state it; else it is read from the repository.
    """
    stated = commit_url or (_commit_url(Path(writer.repository)) if writer.repository is not None else None)
    if stated is not None:
        store_commit_url(store, writer.project, writer.project_id, stated)
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
    replace_releases(store, writer.project, releases(Path(writer.repository), history, hashes))
    return []


def _commit_url(repository: Path) -> str | None:
    """URL prefix of commits from the repository's asv.conf.json, else from its remote."""
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


_SHORT_HASH = re.compile("[0-9a-f]{7,}", re.IGNORECASE)  # a branch may be called fade, and a tag b1


def named_commit(store: Store, project: Project, name: str) -> tuple[Commit | None, str | None]:
    """The recorded commit of a name, and the full hash that the project's repository has for it.

    As in git, a branch or tag precedes a shortened hash of seven digits or more. Raises AmbiguousCommitError if several
    recorded commits start with the shortened hash.
    """
    from ..store import queries  # imports of results need none

    full = resolve(Path(project.repository), name) if project.repository and not is_full_hash(name) else None
    if full is not None:
        return queries.find_commit(store, project.name, full), full
    return (queries.find_commit(store, project.name, name) if _SHORT_HASH.fullmatch(name) else None), None
