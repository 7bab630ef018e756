"""Read commits (order, parents, dates, authors, messages) and their files from a git repository."""

import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ..store.commits import KnownCommit

_LONGEST_NAME = 200  # characters of a branch, a tag or a hash
_LINKS = {  # by the word of `git cat-file --follow-symlinks`
    "dangling": "a link to a missing file",
    "symlink": "a link out of the repository",
    "loop": "a link to itself",
    "notdir": "a link through a file",
}

# The repository may be untrusted, and its configuration can name programs for git to run: to verify signatures, to
# watch files, as hooks, and to fetch objects of a partial clone (by ssh or ext::).
_NO_PROGRAMS = (
    *("-c", "log.showSignature=false"),
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
)
_NO_FETCHING = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}


class GitError(Exception):
    """git failed; the message is git's."""


def git_history(repository: Path, hashes: Iterable[str]) -> tuple[KnownCommit, ...]:
    """The commits and all their ancestors, parents before children, else by date.

    Hashes that are not in the repository are skipped. Raises GitError.
    """
    known = git(
        repository, "cat-file", "--batch-check=%(objectname) %(objecttype)", standard_input="\n".join(hashes) + "\n"
    )
    tips = [line.split()[0] for line in known.splitlines() if line.endswith(" commit")]
    if not tips:
        return ()
    log = git(
        repository,
        "log",
        "--date-order",
        "--reverse",
        "--format=%H%x00%P%x00%ct%x00%an%x00%s%x00",
        "--stdin",
        standard_input="\n".join(tips) + "\n",
    )
    return tuple(
        KnownCommit(
            hash=commit.strip(),
            date_ms=int(date) * 1000,
            author=author,
            subject=subject,
            parents=tuple(parents.split()),
        )
        for commit, parents, date, author, subject in records(log, 5)
    )


def tags(repository: Path) -> tuple[tuple[str, str], ...]:
    """Names of the repository's tags, each with its commit. Raises GitError."""
    # An annotated tag is an object; the third field is the commit that it points to.
    listed = git(repository, "for-each-ref", "--format=%(refname:short)%09%(objectname)%09%(*objectname)", "refs/tags")
    rows = [line.split("\t") for line in listed.splitlines()]
    return tuple((name, target or own) for name, own, target in rows)


def resolve(repository: Path, revision: str) -> str | None:
    """The full hash of a branch, tag or other name of a commit; None for an unknown name.

    A search through messages (`:/words`, `HEAD^{/words}`) is refused: anybody may request it, and it reads the whole
    history.
    """
    if len(revision) > _LONGEST_NAME or not revision.isprintable() or ":/" in revision or "{/" in revision:
        return None  # a command takes no argument that is not printable
    try:
        wanted = f"{revision}^{{commit}}"
        return git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", wanted).strip()
    except GitError:
        return None


def commit_date_ms(repository: Path, commit: str) -> int | None:
    """The committer's date of a commit; None for an unknown commit."""
    try:
        shown = git(repository, "show", "--no-patch", "--format=%ct", "--end-of-options", f"{commit}^{{commit}}")
    except GitError:
        return None
    return int(shown.strip()) * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    commit: str  # full hash
    author: str
    date: datetime  # the author's
    text: str


def messages(repository: Path, base: str, head: str) -> tuple[CommitMessage, ...]:
    """The messages of the commits in base..head (full hashes), oldest first. Raises GitError."""
    log = git(repository, "log", "--reverse", "--format=%H%x00%an%x00%aI%x00%B%x00", f"{base}..{head}")
    return tuple(
        CommitMessage(commit=commit.strip(), author=author, date=datetime.fromisoformat(date), text=text)
        for commit, author, date, text in records(log, 4)
    )


def file_at(repository: Path, commit: str, path: str, *, most: int) -> bytes | None:
    """The content of a file at a commit (full hash), by its path from the repository's root; None if it is absent.

    Links inside the repository are followed, as in a checkout. Raises GitError for anything but a file, for a link that
    leads to none, and for a file of more than `most` bytes.
    """
    name = f"{commit}:{path}"
    try:
        answer = git(
            repository, "cat-file", "--batch-check", "--follow-symlinks", standard_input=f"{name}\n"
        ).splitlines()[0]
    except (GitError, IndexError):
        return None
    if answer.endswith(" missing"):
        return None
    number, _, kind = answer.partition(" ")  # "<hash> blob 12", "<hash> tree 34", "dangling 7", "symlink 11", "loop 7"
    kind, _, size = kind.partition(" ")
    if kind != "blob":
        actual = "a folder" if kind == "tree" else "a submodule" if kind in {"commit", "submodule"} else _LINKS[number]
        raise GitError(f"{path} of {commit[:8]} is {actual}; expected a file")
    if int(size) > most:
        raise GitError(f"{path} of {commit[:8]} has {size} bytes; expected {most} at most")
    return _git(repository, "cat-file", "blob", number)


def uncommitted_files(repository: Path) -> dict[str, bool]:
    """Files and folders that differ from HEAD, by path from the repository's root, and whether git tracks them.

    Raises GitError.
    """
    listed = git(repository, "status", "--porcelain", "--no-renames", "-z")
    # Two letters for the state, a space, the name.
    return {line[3:]: not line.startswith("??") for line in listed.split("\0")[:-1]}


def root_of(folder: Path) -> Path | None:
    """The root folder of a checkout, or a bare repository itself; None outside of git."""
    try:
        if git(folder, "rev-parse", "--is-bare-repository").strip() == "true":
            return folder
        return Path(git(folder, "rev-parse", "--show-toplevel").strip())
    except GitError:
        return None


def records(log: str, fields: int) -> Iterator[tuple[str, ...]]:
    """Split the output of `git log` into `fields` per commit, each ended by NUL, which no field can contain."""
    values = iter(log.split("\0")[:-1])
    return zip(*[values] * fields, strict=True)


def git(repository: Path, *arguments: str, standard_input: str | None = None) -> str:
    """The output of a git command, which runs no program of the repository's configuration. Raises GitError."""
    output = _git(
        repository,
        *arguments,
        standard_input=standard_input.encode(errors="surrogateescape") if standard_input is not None else None,
    )
    return output.decode(errors="replace")


def _git(repository: Path, *arguments: str, standard_input: bytes | None = None) -> bytes:
    try:
        done = subprocess.run(
            ["git", "-C", str(repository), *_NO_PROGRAMS, *arguments],
            input=standard_input,
            capture_output=True,
            check=False,
            env=os.environ | _NO_FETCHING,
        )
    except FileNotFoundError as error:
        raise GitError("git is not installed") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise GitError(said or f"git {arguments[0]} failed in {repository}")
    return done.stdout
