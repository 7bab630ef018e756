"""What people may do here, and who a person is."""

from dataclasses import dataclass
from enum import StrEnum

from warpwatch.dashboard.access_settings import AccessSettings


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
    subject: str  # tells people of one name apart, as whoever names them does
    role: Role


def role_of(settings: AccessSettings, name: str, groups: tuple[str, ...]) -> Role | None:
    """The highest role whose list has the name or one of the groups; None for somebody who may not even read."""
    for role, entries in (
        (Role.ADMIN, settings.admins),
        (Role.TRIAGER, settings.triagers),
        (Role.READER, settings.readers),
    ):
        if any(_matches(entry, name, groups) for entry in entries):
            return role
    return None if settings.reading_wants_login else Role.READER


def relevant_groups(settings: AccessSettings, groups: tuple[str, ...]) -> tuple[str, ...]:
    """Those that some list names; people are in hundreds, and a session's cookie holds four kilobytes."""
    named = {*settings.admins, *settings.triagers, *settings.readers}
    return tuple(group for group in groups if f"group:{group}" in named)


def _matches(entry: str, name: str, groups: tuple[str, ...]) -> bool:
    """Names without regard to case, as mail addresses are; groups to the letter."""
    if entry.startswith("group:"):
        return entry.removeprefix("group:") in groups
    if entry.startswith("*@"):
        return name.count("@") == 1 and name.casefold().endswith(entry[1:].casefold())
    return entry == "*" or entry.casefold() == name.casefold()
