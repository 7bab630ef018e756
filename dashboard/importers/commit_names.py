"""Which recorded commit a person means by a branch, a tag or a hash."""

import re
from pathlib import Path

from ..model.series import Commit, Project
from ..store import Store, queries
from .git import resolve

_FULL_HASH = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_SHORT_HASH = re.compile("[0-9a-f]{7,}", re.IGNORECASE)  # a branch may be called fade, and a tag b1


def is_full_hash(name: str) -> bool:
    """Whether a name can only be a hash, so that no repository need be asked."""
    return _FULL_HASH.fullmatch(name) is not None


def named_commit(store: Store, project: Project, name: str) -> tuple[Commit | None, str | None]:
    """The recorded commit called `name`, and the full hash that the project's repository has for that name.

    As in git, a branch or a tag comes before a shortened hash, which has seven digits or more. Raises
    AmbiguousCommitError if several recorded commits start with the shortened hash.
    """
    full = resolve(Path(project.repository), name) if project.repository and not is_full_hash(name) else None
    if full is not None:
        return queries.find_commit(store, project.name, full), full
    return (queries.find_commit(store, project.name, name) if _SHORT_HASH.fullmatch(name) else None), None
