"""What leaves the store of an alert: its state, its series, where people say it began, and its history."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from .series import Commit, Series

SAME_PLACE = 5  # commits with a number that a changepoint may wander as data comes in, and still be the same


class AlertState(StrEnum):
    """Where an alert stands."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    EXPECTED = "expected"
    FALSE_ALARM = "false alarm"
    RESOLVED = "resolved"


class EventKind(StrEnum):
    """What happened to an alert."""

    STATE = "state"
    ASSIGNED = "assigned"  # detail: to whom; None: to nobody any more
    LINKED = "linked"  # detail: the address; None: taken off
    NOTED = "noted"
    MOVED = "moved"  # detail: hash of the commit that a person says it came with
    UPDATED = "updated"  # a program: series joined, the range narrowed, the magnitude moved; the note says which


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What an alert's messages said last, so that only what is news goes out. Commits by their hashes."""

    thread: str  # what all its messages have in common
    messages: int  # so far
    start: str  # the change came after this commit
    end: str  # and by this one
    worst: tuple[float, float, float]  # of the largest change without the machine's part: magnitude, low, high
    first_range: tuple[str, str] | None = None  # start and end as they were told first; older alerts do not know

    def as_json(self) -> dict[str, Any]:
        """For the store."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        """From the store."""
        first = kept.get("first_range")
        return cls(**{**kept, "worst": tuple(kept["worst"]), "first_range": tuple(first) if first else None})


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertedSeries:
    """One series of an alert, as it was when the alert was told last."""

    series: Series
    magnitude: float
    low: float
    high: float
    commit: str  # hash of the first commit of its new level
    place: int  # among its commits with a number
    is_resolved: bool  # its level is back, or the detector holds the change no more
    is_settled: bool  # all its values have been analysed, and its machine judged


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertEvent:
    """A step in an alert's life."""

    at: datetime
    state: AlertState  # after it
    author: str | None  # None: a program
    note: str | None
    kind: EventKind = EventKind.STATE
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedChange:
    """Where a person, or a bisect, says that a change came; the detector’s word stands beside it."""

    commit: Commit
    previous_commit: Commit  # the measured one before
    author: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Series that got worse at one commit on one machine, and what became of it."""

    id: int
    project: str
    machine: str
    commit: Commit
    previous_commit: Commit
    state: AlertState
    opened: datetime
    series: tuple[AlertedSeries, ...]
    events: tuple[AlertEvent, ...]
    assignee: str | None = None
    link: str | None = None
    version: int = 1
    stated: StatedChange | None = None
    told: Told | None = None  # None: no message went out
    findings: int = 0  # of its machine, counted, when it was read: another number, and the machine was analysed since

    @property
    def thread(self) -> str:
        """What its messages have in common."""
        return self.told.thread if self.told else f"alert-{self.id}"

    @property
    def decided_by(self) -> str | None:
        """Who set the state that it is in; None: a program."""
        return next((each.author for each in reversed(self.events) if each.kind is EventKind.STATE), None)
