"""Which warpwatch.toml two commits are compared by: base's, so that no change loosens what it is itself judged by."""

from dataclasses import dataclass
from pathlib import Path

from warpwatch.ci.policy.policy import Policy
from warpwatch.ci.policy.reading import FILE_NAME, find_policy, parse_policy, read_policy
from warpwatch.dashboard.importers.git_history import file_at, resolve, root_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPolicy:
    """A policy and where it is from."""

    policy: Policy
    name: str | None  # of the file; None: there is none, and these are the defaults
    note: str | None = None  # what one may not expect


def policy_at(folder: Path, base: str, head: str) -> FoundPolicy:
    """The file that base (a full hash) has in `folder` or above it; the folder's own where git does not know base.

    Raises PolicyError.
    """
    root = root_of(folder)
    if root is None or resolve(root, base) is None:
        path = find_policy(folder)
        return FoundPolicy(policy=read_policy(path), name=str(path) if path else None)
    at_base, at_head = (_nearest(root, folder, commit) for commit in (base, head))
    changes = at_head is not None and (at_base is None or at_head[1] != at_base[1])
    note = f"head changes {FILE_NAME}: that counts from the next change on, or give --policy" if changes else None
    if at_base is None:
        return FoundPolicy(policy=Policy(), name=None, note=note)
    path_there, text = at_base
    name = f"{path_there} of {base[:8]}"
    return FoundPolicy(policy=parse_policy(text, name), name=name, note=note)


def policy_in(path: Path) -> FoundPolicy:
    """The file that somebody named, which has to be there. Raises PolicyError."""
    return FoundPolicy(policy=read_policy(path), name=str(path))


def _nearest(root: Path, folder: Path, commit: str) -> tuple[str, str] | None:
    """Path and text of the file in the folder, or the nearest above it, as they are at a commit."""
    inside = folder.resolve().relative_to(root.resolve())
    for place in (inside, *inside.parents):
        path = (place / FILE_NAME).as_posix()
        text = file_at(root, commit, path)
        if text is not None:
            return path, text
    return None
