"""What a check tells: what it looked at, what it found, why that matters, and the command that mends it."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How it is. Only what is wrong makes the exit status 1."""

    GOOD = "good"
    NOTE = "note"  # works; the numbers scatter more, or somebody should know
    WRONG = "wrong"  # no measuring, or numbers that are not to be trusted
    UNKNOWN = "unknown"  # this machine does not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One answer of one check."""

    check: str
    looked_at: str
    state: State
    found: str
    why: str = ""  # it matters; empty where it is good
    fix: str = ""  # a command, or a sentence where no command does it


def good(check: str, looked_at: str, found: str) -> Finding:
    """Nothing to do."""
    return Finding(check=check, looked_at=looked_at, state=State.GOOD, found=found)


def note(check: str, looked_at: str, found: str, *, why: str, fix: str) -> Finding:
    """Something that could be better."""
    return Finding(check=check, looked_at=looked_at, state=State.NOTE, found=found, why=why, fix=fix)


def wrong(check: str, looked_at: str, found: str, *, why: str, fix: str) -> Finding:
    """Something that has to be mended."""
    return Finding(check=check, looked_at=looked_at, state=State.WRONG, found=found, why=why, fix=fix)


def unknown(check: str, looked_at: str, found: str) -> Finding:
    """Not told here."""
    return Finding(check=check, looked_at=looked_at, state=State.UNKNOWN, found=found)
