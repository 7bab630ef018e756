"""Commits between a good and a bad one, and the prior probability of each."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from warpwatch.dashboard.importers.git import GitError, git, records

from .measured_runs import Floats


class RangeError(Exception):
    """The two ends are no range; the message gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeCommit:
    """A commit of the range. `paths` are the changes against its first parent, for a merge those of its branch."""

    hash: str
    parents: tuple[str, ...]
    author: str
    subject: str
    paths: frozenset[str]

    @property
    def is_merge(self) -> bool:
        """Whether the commit has several parents."""
        return len(self.parents) > 1


def commit_range(repository: Path, good: str, bad: str) -> tuple[RangeCommit, ...]:
    """The commits from `good` to `bad`, both full hashes. Raises RangeError.

    First parents are what the branch itself was at each time: what a merged branch did on its way was never measured
    there, and may not even build.
    """
    if good == bad:
        raise RangeError(f"good and bad are the same commit, {good[:8]}")
    if _said(repository, "merge-base", "--is-ancestor", good, bad) is None:
        base = (_said(repository, "merge-base", good, bad) or "").strip()
        hint = f"their merge base is {base[:12]}: is that one good?" if base else "they share no commit"
        raise RangeError(f"{good[:8]} is no ancestor of {bad[:8]}; {hint}")
    found = _log(repository, f"{good}..{bad}")
    before = found[0].parents[0] if found and found[0].parents else None
    if before != good:
        raise RangeError(
            f"{good[:8]} is not on the line of first parents of {bad[:8]}: it came with a merge. "
            f"{(before or 'nothing')[:12]} lies there before it: is that one good?"
        )
    return (*_log(repository, f"{good}^!"), *found)


def _log(repository: Path, revisions: str) -> list[RangeCommit]:
    """Paths stand behind a commit's last field: each field begins with NUL, so that they are one too."""
    words = ["log", "--first-parent", "-m", "--reverse", "--name-only", "--format=%x00%H%x00%P%x00%an%x00%s%x00"]
    try:
        log = git(repository, "-c", "core.quotePath=off", *words, revisions, "--")
    except GitError as error:
        raise RangeError(f"git log {revisions} failed in {repository}: {error}") from error
    return [
        RangeCommit(
            hash=name,
            parents=tuple(parents.split()),
            author=author,
            subject=subject,
            paths=frozenset(line for line in paths.split("\n") if line),
        )
        for name, parents, author, subject, paths in records(f"{log}\0"[1:], 5)
    ]


def _said(repository: Path, *words: str) -> str | None:
    """Output of git; None if it fails."""
    try:
        return git(repository, *words)
    except GitError:
        return None


# Prior weights of a commit:
_UNLIKELY = 1e-3  # its changes are neither built nor measured
_ELSEWHERE = 0.02  # it changed other files than `paths`
_SAME_CODE = 1e-2  # equal machine code before and after; inputs, launches or host code may differ
_IDLE = re.compile(
    r"(^|/)(docs?|tests?|\.github|\.gitlab|\.ci)/|\.(md|rst)$|(^|/)(LICENSE|CHANGELOG|AUTHORS|\.gitignore)[^/]*$"
)


def suspicion(
    commits: Sequence[RangeCommit],
    *,
    wanted_paths: Sequence[str] = (),
    carried: str | None = None,
    codes: Mapping[str, str] | None = None,
) -> Floats:
    """Prior weights of all commits but the first, which is good.

    `wanted_paths` are what the series is made of, as globs; none: anything but tests, documentation and CI. `carried`
    is the benchmarks' folder, which asv takes from the checkout whatever it measures. `codes` holds the hash of the
    machine code that ran at commits, where it is known: between two that ran the same, nothing is suspected.
    """
    weights = np.ones(len(commits) - 1)
    for place, commit in enumerate(commits[1:]):
        matter = [path for path in commit.paths if not _is_idle(path, carried)]
        if not matter:
            weights[place] = _UNLIKELY
        elif wanted_paths and not any(_matches(path, wanted_paths) for path in matter):
            weights[place] = _ELSEWHERE
    known = [(place, codes[commit.hash]) for place, commit in enumerate(commits) if codes and commit.hash in codes]
    for (before, old), (after, new) in itertools.pairwise(known):
        if old == new:
            weights[before:after] = np.minimum(weights[before:after], _SAME_CODE)
    return weights


def _is_idle(path: str, carried: str | None) -> bool:
    return bool(_IDLE.search(path)) or (carried is not None and path.startswith(f"{carried.strip('./')}/"))


def _matches(path: str, wanted: Sequence[str]) -> bool:
    """Whether the path matches a glob, or is in the folder."""
    return any(fnmatch(path, glob) or path.startswith(f"{glob.rstrip('/')}/") for glob in wanted)
