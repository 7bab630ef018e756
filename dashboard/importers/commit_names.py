"""Look up a recorded commit by branch, tag or hash."""

import re
from pathlib import Path

from ..model.series import Commit, Project
from ..store import Store, queries
from .git import resolve
from .import_overrides import is_full_hash

_SHORT_HASH = re.compile("[0-9a-f]{7,}", re.IGNORECASE)  # a branch may be called fade, and a tag b1


def named_commit(store: Store, project: Project, name: str) -> tuple[Commit | None, str | None]:
    """The recorded commit of a name, and the full hash that the project's repository has for it.

    As in git, a branch or tag precedes a shortened hash of seven digits or more. Raises AmbiguousCommitError if several
    recorded commits start with the shortened hash.
    """
    full = resolve(Path(project.repository), name) if project.repository and not is_full_hash(name) else None
    if full is not None:
        return queries.find_commit(store, project.name, full), full
    return (queries.find_commit(store, project.name, name) if _SHORT_HASH.fullmatch(name) else None), None
