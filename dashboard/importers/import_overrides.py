"""What the user says of results that do not say it themselves: the commit, its date, the machine."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from .input_files import BrokenFileError

_HASH = re.compile(r"[0-9a-f]{7,64}")
_FULL_HASH = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")

# The bytes of a file that belongs to a result file, by its name below the result file's folder; None if it is absent.
Beside = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Facts from the command line or the address of an upload. What is given counts, whatever a file says."""

    commit: str | None = None  # full hash
    date_ms: int | None = None  # when it was committed
    machine: str | None = None


def check_commit(commit: str, what: str) -> str:
    """The hash in lower case. Raises BrokenFileError for what is none, such as a branch or `unversioned`."""
    lower = commit.lower()
    if not _HASH.fullmatch(lower):
        raise BrokenFileError(
            f"{what} is {commit[:80]!a}; wanted a commit's hash, 7 to 64 hexadecimal digits (git rev-parse HEAD)"
        )
    return lower


def is_full_hash(text: str) -> bool:
    """Whether it is a whole SHA-1 or SHA-256, as git prints it."""
    return _FULL_HASH.fullmatch(text) is not None


def milliseconds(text: str) -> int:
    """Milliseconds since 1970 of a date: ISO 8601, UTC where no zone is named, or seconds since 1970.

    Raises ValueError for anything else.
    """
    if re.fullmatch(r"\d{9,11}", text):
        return int(text) * 1000
    try:
        date = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ValueError(f"{text!r} is no date; wanted ISO 8601 (git show -s --format=%cI) or seconds (%ct)") from error
    return int((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() * 1000)
