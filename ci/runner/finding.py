"""Findings of checks: the source, the observation, why it matters, and the fix."""

from dataclasses import dataclass
from enum import StrEnum


class FindingState(StrEnum):
    """Severity of a finding. Only WRONG makes the exit status 1."""

    GOOD = "good"
    NOTE = "note"  # measuring works, with more noise or another flaw
    WRONG = "wrong"  # measuring fails, or its values cannot be trusted
    UNKNOWN = "unknown"  # not reported by this machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding of a check."""

    check: str
    source: str  # the file, command or field that was read
    state: FindingState
    observed: str
    why: str = ""  # it matters; empty if good or unknown
    fix: str = ""  # a command, or a sentence if no command does it


def good(check: str, source: str, observed: str) -> Finding:
    """A finding without a problem."""
    return Finding(check=check, source=source, state=FindingState.GOOD, observed=observed)


def note(check: str, source: str, observed: str, *, why: str, fix: str) -> Finding:
    """A finding that could be improved."""
    return Finding(check=check, source=source, state=FindingState.NOTE, observed=observed, why=why, fix=fix)


def wrong(check: str, source: str, observed: str, *, why: str, fix: str) -> Finding:
    """A finding that must be fixed."""
    return Finding(check=check, source=source, state=FindingState.WRONG, observed=observed, why=why, fix=fix)


def unknown(check: str, source: str, observed: str) -> Finding:
    """A finding that this machine does not report."""
    return Finding(check=check, source=source, state=FindingState.UNKNOWN, observed=observed)
