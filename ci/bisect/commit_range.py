"""Commits between a good and a bad one, and the prior probability of each."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from warpwatch.dashboard.importers.git import GitError, git, records

from .run_likelihood import Floats


class RangeError(Exception):
    """The two commits are not a range; the message gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeCommit:
    """A commit of the range. `paths` changed against its first parent; of a merge, on its branch."""

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
    """The commits from `good` to `bad` (full hashes) along first parents. Raises RangeError.

    Commits of merged branches are left out: they were never the branch's state, and may not build.
    """
    if good == bad:
        raise RangeError(f"good and bad are the same commit, {good[:8]}")
    if _git_output(repository, "merge-base", "--is-ancestor", good, bad) is None:
        base = (_git_output(repository, "merge-base", good, bad) or "").strip()
        hint = f"their merge base is {base[:12]}: is it good?" if base else "they share no commit"
        raise RangeError(f"{good[:8]} is not an ancestor of {bad[:8]}; {hint}")
    later = _log(repository, f"{good}..{bad}")
    before = later[0].parents[0] if later and later[0].parents else None
    if before != good:
        raise RangeError(
            f"{good[:8]} is not on the line of first parents of {bad[:8]}: it came with a merge. "
            f"The line has {(before or 'nothing')[:12]} before it: is that commit good?"
        )
    return (*_log(repository, f"{good}^!"), *later)


def _log(repository: Path, revisions: str) -> list[RangeCommit]:
    """Commits by git log. Each field starts with NUL; the paths follow the last field."""
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


def _git_output(repository: Path, *words: str) -> str | None:
    """Output of git; None on an error."""
    try:
        return git(repository, *words)
    except GitError:
        return None


# Prior weights of commits:
_UNLIKELY = 1e-3  # changes nothing that is built or measured
_ELSEWHERE = 0.02  # changes none of the source paths
_SAME_CODE = 1e-2  # equal machine code before and after; inputs, launches and host code may differ
_IRRELEVANT = re.compile(
    r"(^|/)(docs?|tests?|\.github|\.gitlab|\.ci)/|\.(md|rst)$|(^|/)(LICENSE|CHANGELOG|AUTHORS|\.gitignore)[^/]*$"
)


def prior_weights(
    commits: Sequence[RangeCommit],
    *,
    source_paths: Sequence[str] = (),
    benchmarks_folder: str | None = None,
    code_hashes: Mapping[str, str] | None = None,
) -> Floats:
    """Prior weights of all commits but the first, which is good.

    `source_paths` are globs of the series' sources; empty: all files except tests, documentation and CI. Changes in
    `benchmarks_folder` do not count, as asv runs the checkout's benchmarks at every commit. `code_hashes` has known
    hashes of the machine code that ran at commits; commits between two equal hashes get a low weight.
    """
    weights = np.ones(len(commits) - 1)
    for index, commit in enumerate(commits[1:]):
        relevant = [path for path in commit.paths if not _is_irrelevant(path, benchmarks_folder)]
        if not relevant:
            weights[index] = _UNLIKELY
        elif source_paths and not any(_matches(path, source_paths) for path in relevant):
            weights[index] = _ELSEWHERE
    known = [
        (index, code_hashes[commit.hash])
        for index, commit in enumerate(commits)
        if code_hashes and commit.hash in code_hashes
    ]
    for (before, old), (after, new) in itertools.pairwise(known):
        if old == new:
            weights[before:after] = np.minimum(weights[before:after], _SAME_CODE)
    return weights


def _is_irrelevant(path: str, benchmarks_folder: str | None) -> bool:
    return bool(_IRRELEVANT.search(path)) or (
        benchmarks_folder is not None and path.startswith(f"{benchmarks_folder.strip('./')}/")
    )


def _matches(path: str, globs: Sequence[str]) -> bool:
    """Whether the path matches a glob, or is in a folder of that name."""
    return any(fnmatch(path, glob) or path.startswith(f"{glob.rstrip('/')}/") for glob in globs)
