"""The order, parents, dates, authors and subjects of commits, read from a git repository by `git log`."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from warpwatch.dashboard.store.ordering import KnownCommit

_LONGEST_NAME = 200  # characters of a branch, a tag or a hash


class GitError(Exception):
    """git could not answer; the message is its own."""


def git_history(repository: Path, hashes: Iterable[str]) -> tuple[KnownCommit, ...]:
    """All ancestors of the given commits and they themselves, parents before children, else by date.

    Hashes that the repository does not know are passed over. Raises GitError.
    """
    known = _git(repository, "cat-file", "--batch-check=%(objectname) %(objecttype)", given="\n".join(hashes) + "\n")
    tips = [line.split()[0] for line in known.splitlines() if line.endswith(" commit")]
    if not tips:
        return ()
    fields = "%H%x1f%P%x1f%ct%x1f%an%x1f%s%x1e"
    log = _git(
        repository, "log", "--date-order", "--reverse", f"--format={fields}", "--stdin", given="\n".join(tips) + "\n"
    )
    return tuple(_commit(record) for record in log.split("\x1e") if record.strip())


def tags(repository: Path) -> tuple[tuple[str, str], ...]:
    """The repository's tags, each with the commit that it names. Raises GitError."""
    # An annotated tag is an object of its own; what it is put on stands behind it.
    listed = _git(repository, "for-each-ref", "--format=%(refname:short)%09%(objectname)%09%(*objectname)", "refs/tags")
    rows = [line.split("\t") for line in listed.splitlines()]
    return tuple((name, behind or itself) for name, itself, behind in rows)


def resolve(repository: Path, revision: str) -> str | None:
    """The full hash of a branch, tag or other name of a commit; None if the repository knows none.

    A search through messages (`:/words`, `HEAD^{/words}`) is no name: a stranger may ask, and it costs a whole history.
    """
    if len(revision) > _LONGEST_NAME or not revision.isprintable() or ":/" in revision or "{/" in revision:
        return None  # a command takes no argument that is not printable
    try:
        wanted = f"{revision}^{{commit}}"
        return _git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", wanted).strip()
    except GitError:
        return None


def commit_date_ms(repository: Path, commit: str) -> int | None:
    """When a commit was made, by its committer's clock; None if the repository does not know it."""
    try:
        shown = _git(repository, "show", "--no-patch", "--format=%ct", "--end-of-options", f"{commit}^{{commit}}")
    except GitError:
        return None
    return int(shown.strip()) * 1000


def _commit(record: str) -> KnownCommit:
    commit, parents, date, author, subject = record.strip("\n").split("\x1f", 4)
    return KnownCommit(
        hash=commit, date_ms=int(date) * 1000, author=author, subject=subject, parents=tuple(parents.split())
    )


def _git(repository: Path, *arguments: str, given: str | None = None) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(repository), *arguments],
            input=given, capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise GitError("git is not installed") from error
    if done.returncode:
        raise GitError(done.stderr.strip() or f"git {arguments[0]} failed in {repository}")
    return done.stdout
