"""What leaves the store of an alert: its state, its series, where people say it began, and its history."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from warpwatch.dashboard.store.records import Commit, Series


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertedSeries:
    """One series of an alert, as it was when the alert opened."""

    series: Series
    magnitude: float
    low: float
    high: float


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
    """Where a person says that a change came; the detector's word stands beside it."""

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
