"""What people may do here, and who a person is."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """Each may do what those above it may."""

    READER = "reader"
    TRIAGER = "triager"  # says what a regression is, notes, assigns
    ADMIN = "admin"  # makes and revokes tokens

    def includes(self, other: "Role") -> bool:
        """Whether this role may do what the other one may."""
        order = tuple(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody whose name we know: one who logged in, the one at this machine, or a program with a token."""

    name: str
    role: Role
