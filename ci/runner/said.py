"""How a command ended."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Said:
    """Its status and its words. A command that is not there, or hangs, ends with 127."""

    status: int
    out: str
    err: str = ""

    @property
    def first_line(self) -> str:
        """What a person reads first of it."""
        lines = (self.out or self.err).strip().splitlines()
        return lines[0].strip() if lines else ""
