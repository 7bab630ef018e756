"""Facts about results from the user: commit, date, machine."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from .input_files import BrokenFileError

_HASH = re.compile(r"[0-9a-f]{7,64}")
_FULL_HASH = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")

# Reads a file that belongs to a result file, by its path below the result file's folder; None if it is absent.
ReadSibling = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOverrides:
    """Facts from the command line or an upload's URL; they override those in the file."""

    commit: str | None = None  # full hash
    date_ms: int | None = None  # of the commit
    machine: str | None = None


def check_commit(commit: str, what: str) -> str:
    """The hash in lower case. Raises BrokenFileError for anything else, such as a branch or `unversioned`."""
    lower = commit.lower()
    if not _HASH.fullmatch(lower):
        raise BrokenFileError(
            f"{what} is {commit[:80]!a}; wanted a commit's hash, 7 to 64 hexadecimal digits (git rev-parse HEAD)"
        )
    return lower


def is_full_hash(text: str) -> bool:
    """Whether the text is a complete SHA-1 or SHA-256 as git prints it."""
    return _FULL_HASH.fullmatch(text) is not None


def milliseconds(text: str) -> int:
    """Milliseconds since 1970 from ISO 8601 (UTC if no zone is named) or from seconds since 1970.

    Raises ValueError for anything else.
    """
    if re.fullmatch(r"\d{9,11}", text):
        return int(text) * 1000
    try:
        date = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ValueError(f"{text!r} is no date; wanted ISO 8601 (git show -s --format=%cI) or seconds (%ct)") from error
    return int((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() * 1000)
