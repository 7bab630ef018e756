"""What session.py asks of child.py. No torch here."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One process's work, and where it writes."""

    run: str
    quick: bool
    cases: tuple[str, ...]  # "rope-warpwatch"; those that this machine's device has are measured
    journal: int  # a file descriptor
    report: str
