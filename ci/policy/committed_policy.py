"""The policy that a commit holds: two commits are compared by base's, pages by the newest."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from warpwatch.dashboard.importers.git import GitError, file_at, git, resolve, root_of
from warpwatch.dashboard.model.thresholds import StatedLimits

from ..acceptance.grammar import shown
from .policy_file import FILE_NAME, LARGEST_FILE, PolicyError, find_policy, parse_policy, read_policy
from .policy_model import Policy

# Which warpwatch.toml two commits are compared by: base's, so that no change loosens what it is itself judged by.
#
# Head's is read too: one that cannot be used would stop every comparison after it, so it must not be merged.


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPolicy:
    """A policy and where it is from."""

    policy: Policy
    name: str | None  # of the file; None: there is none that can be used, and these are the defaults
    notes: tuple[str, ...] = ()  # what one may not expect
    fault: str | None = None  # what is wrong with head's own file


def policy_at(folder: Path, base: str, head: str) -> FoundPolicy:
    """The file that base (a full hash) has in `folder` or above it; the folder's own where git does not know base.

    Where base's cannot be used the defaults count, by which every regression blocks. Raises PolicyError for the
    folder's own.
    """
    root = root_of(folder)
    if root is None or resolve(root, base) is None:
        path = find_policy(folder)
        return FoundPolicy(policy=read_policy(path), name=str(path) if path else None)
    at_base, at_head = (_CommittedFile.nearest(root, folder, commit) for commit in (base, head))
    notes, fault, policy, name = [], None, Policy(), None
    if at_head is not None and (at_base is None or at_head.content != at_base.content):
        notes.append(f"head changes {FILE_NAME}: that counts from the next change on, or give --policy")
    if at_base is not None:
        try:
            policy, name = at_base.policy(), at_base.name
        except PolicyError as error:
            notes.append(f"judged by the defaults, as base's policy cannot be used: {_one_line(error)}")
    if at_head is not None:
        try:
            at_head.policy()
        except PolicyError as error:
            fault = f"head's policy cannot be used: {_one_line(error)}"
    return FoundPolicy(policy=policy, name=name, notes=tuple(notes), fault=fault)


def policy_in(path: Path) -> FoundPolicy:
    """The file that somebody named, which has to be there. Raises PolicyError."""
    return FoundPolicy(policy=read_policy(path), name=str(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommittedFile:
    """A file as a commit has it."""

    name: str
    content: bytes | GitError  # or why it is no file

    @staticmethod
    def nearest(root: Path, folder: Path, commit: str) -> "_CommittedFile | None":
        """In the folder, or the nearest above it."""
        inside = folder.resolve().relative_to(root.resolve())
        for place in (inside, *inside.parents):
            path = (place / FILE_NAME).as_posix()
            try:
                content = file_at(root, commit, path, most=LARGEST_FILE)
            except GitError as error:
                return _CommittedFile(name=f"{path} of {commit[:8]}", content=error)
            if content is not None:
                return _CommittedFile(name=f"{path} of {commit[:8]}", content=content)
        return None

    def policy(self) -> Policy:
        """Raises PolicyError."""
        if isinstance(self.content, GitError):
            raise PolicyError(str(self.content)) from self.content
        return parse_policy(self.content, self.name)


def _one_line(error: PolicyError) -> str:
    return shown("; ".join(str(error).splitlines()))


# What a repository's warpwatch.toml states of the limits: the file as its newest commit has it, not as it lies here.
#
# So what somebody tries out in a checkout judges no page, and of two that state, the newer commit counts.


def limits_stated_in(folder: Path) -> StatedLimits | None:
    """By the file in the folder or above it; None where there is none. Raises PolicyError."""
    path = find_policy(folder)
    return limits_stated_by(path) if path is not None else None


def limits_stated_by(path: Path) -> StatedLimits:
    """By the file at a path: as HEAD of its repository has it, else as it lies there. Raises PolicyError."""
    path = path.resolve()
    root = root_of(path.parent)
    inside = path.relative_to(root.resolve()).as_posix() if root is not None else path.name
    try:
        content = file_at(root, "HEAD", inside, most=LARGEST_FILE) if root is not None else None
    except GitError as error:
        raise PolicyError(str(error)) from error
    if root is not None and content is not None:
        commit, committed = _last_change(root, inside)
        rules = parse_policy(content, f"{inside} of {commit[:8]}").limits
    else:
        rules, commit, committed = read_policy(path).limits, None, datetime.fromtimestamp(path.stat().st_mtime, UTC)
    try:
        return StatedLimits(**dict(rules), source=inside, commit=commit, committed=committed)
    except ValidationError as error:
        raise PolicyError(f"{inside}: pages cannot be told of it: {error.errors()[0]['msg']}") from error


def _last_change(root: Path, inside: str) -> tuple[str, datetime]:
    """The commit that gave the file the content it has at HEAD. Raises PolicyError, also where a shallow clone ends
    there: git would name the oldest commit that it has.
    """
    try:
        commit, seconds = git(root, "log", "-1", "--format=%H %ct", "HEAD", "--", inside).split()
        is_oldest = commit in git(root, "rev-list", "--max-parents=0", "HEAD").split()
        is_cut = is_oldest and git(root, "rev-parse", "--is-shallow-repository").strip() == "true"
    except (GitError, ValueError) as error:
        raise PolicyError(f"{inside}: git does not say which commit changed it last: {error}") from error
    if is_cut:
        raise PolicyError(
            f"{inside}: this clone is too shallow to say which commit changed it last; fetch it whole (fetch-depth: 0)"
        )
    return commit, datetime.fromtimestamp(int(seconds), UTC)
