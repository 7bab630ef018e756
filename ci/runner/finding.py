"""Findings of checks: the object, the observation, why it matters, and the fix."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Severity of a finding. Only WRONG makes the exit status 1."""

    GOOD = "good"
    NOTE = "note"  # works; the numbers scatter more, or somebody should know
    WRONG = "wrong"  # no measuring, or numbers that are not to be trusted
    UNKNOWN = "unknown"  # this machine does not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding of a check."""

    check: str
    looked_at: str
    state: State
    found: str
    why: str = ""  # it matters; empty where it is good
    fix: str = ""  # a command, or a sentence where no command does it


def good(check: str, looked_at: str, found: str) -> Finding:
    """A finding without a problem."""
    return Finding(check=check, looked_at=looked_at, state=State.GOOD, found=found)


def note(check: str, looked_at: str, found: str, *, why: str, fix: str) -> Finding:
    """A finding that could be improved."""
    return Finding(check=check, looked_at=looked_at, state=State.NOTE, found=found, why=why, fix=fix)


def wrong(check: str, looked_at: str, found: str, *, why: str, fix: str) -> Finding:
    """A finding that must be fixed."""
    return Finding(check=check, looked_at=looked_at, state=State.WRONG, found=found, why=why, fix=fix)


def unknown(check: str, looked_at: str, found: str) -> Finding:
    """A finding that is unknown on this machine."""
    return Finding(check=check, looked_at=looked_at, state=State.UNKNOWN, found=found)
