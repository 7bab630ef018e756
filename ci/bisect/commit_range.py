"""The commits between a good and a bad one, along first parents, with what each changed."""

from dataclasses import dataclass
from pathlib import Path

from warpwatch.dashboard.importers.git_history import GitError, git, records


class RangeError(Exception):
    """The two ends make no range; the message says what would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeCommit:
    """One of them. A merge brings all that its branch did: `paths` are its changes against its first parent."""

    hash: str
    parents: tuple[str, ...]
    author: str
    subject: str
    paths: frozenset[str]

    @property
    def is_merge(self) -> bool:
        """Whether it has several parents."""
        return len(self.parents) > 1


def commit_range(repository: Path, good: str, bad: str) -> tuple[RangeCommit, ...]:
    """From good, the first, to bad, the last, both given by full hash. Raises RangeError.

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
            hash=name, parents=tuple(parents.split()), author=author, subject=subject,
            paths=frozenset(line for line in paths.split("\n") if line),
        )
        for name, parents, author, subject, paths in records(f"{log}\0"[1:], 5)
    ]  # fmt: skip


def _said(repository: Path, *words: str) -> str | None:
    """What git says; None where it fails."""
    try:
        return git(repository, *words)
    except GitError:
        return None
