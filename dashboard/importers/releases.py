"""The releases of a project: its repository's tags, each at the first measured commit that has it."""

import bisect
from collections.abc import Collection, Sequence
from pathlib import Path

from warpwatch.dashboard.importers.git_history import tags
from warpwatch.dashboard.store.annotations import Release
from warpwatch.dashboard.store.ordering import KnownCommit

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
