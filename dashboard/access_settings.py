"""Who may come in: read from the environment once, checked, and handed down."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """The part of the settings that says who may read and write."""

    served_on: str | None = None  # the address `warpwatch serve` listens on; None under another server

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "AccessSettings":
        """Raises ValueError with the variable and what to do where one cannot be meant so."""
        return cls()
