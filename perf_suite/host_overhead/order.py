"""What session.py asks of child.py. No torch here."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One process's work, and where it writes."""

    run: str
    quick: bool
    lost: tuple[str, ...]  # cases, "rope-warpwatch", that are not to be tried again
    journal: str
    report: str
