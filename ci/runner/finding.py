"""What a check of `doctor` reports."""

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
    check: str
    source: str  # the file, command or field that was read
    state: FindingState
    observed: str
    why: str = ""  # it matters; empty if good or unknown
    fix: str = ""  # a command, or a sentence if no command does it


@dataclass(frozen=True, slots=True)
class Subject:
    """What a check reads; makes its findings."""

    check: str
    source: str  # the file, command or field

    def good(self, observed: str) -> Finding:
        """Without a problem."""
        return self._finding(FindingState.GOOD, observed)

    def note(self, observed: str, *, why: str, fix: str) -> Finding:
        """It could be improved."""
        return self._finding(FindingState.NOTE, observed, why, fix)

    def wrong(self, observed: str, *, why: str, fix: str) -> Finding:
        return self._finding(FindingState.WRONG, observed, why, fix)

    def unknown(self, observed: str) -> Finding:
        """This machine does not report it."""
        return self._finding(FindingState.UNKNOWN, observed)

    def _finding(self, state: FindingState, observed: str, why: str = "", fix: str = "") -> Finding:
        return Finding(check=self.check, source=self.source, state=state, observed=observed, why=why, fix=fix)
