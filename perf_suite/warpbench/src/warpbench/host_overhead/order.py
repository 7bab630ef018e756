"""What session.py asks of child.py. No torch here."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One process's work, and where it writes."""

    run: str
    quick: bool
    jobs: str  # as JSON; those of this machine's device are measured
    journal: int  # a file descriptor
    report: str
