"""Which warpwatch.toml two commits are compared by: base's, so that no change loosens what it is itself judged by.

Head's is read too: one that cannot be used would stop every comparison after it, so it must not be merged.
"""

from dataclasses import dataclass
from pathlib import Path

from warpwatch.ci.acceptance.wording import shown
from warpwatch.ci.policy.policy import Policy
from warpwatch.ci.policy.reading import FILE_NAME, LARGEST_FILE, PolicyError, find_policy, parse_policy, read_policy
from warpwatch.dashboard.importers.git_history import GitError, file_at, resolve, root_of


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
