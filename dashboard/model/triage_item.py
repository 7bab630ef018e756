"""Triage items: regressions of one commit range and machine, with or without an alert."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .alert import AlertedSeries, RegressionAlert
from .changepoint import Regression
from .series import Commit


class TriageState(StrEnum):
    """State of an item: that of its alert, or untriaged."""

    UNTRIAGED = "untriaged"
    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    EXPECTED = "expected"
    FALSE_ALARM = "false alarm"
    RESOLVED = "resolved"


WAITING = (TriageState.UNTRIAGED, TriageState.OPEN, TriageState.ACKNOWLEDGED)  # need a decision or an action


class TriageOrder(StrEnum):
    """Order of the list."""

    NEWEST = "newest"
    WORST = "worst"  # by severity over all series


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemVersion:
    """An item as a person saw it. `version` differs once the item has changed."""

    key: str  # "alert-12", or of one without an alert the commit's hash and the machine's number: "new-4f…-3"
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageItem:
    """Series of one machine that got worse at one commit, with their triage."""

    seen: ItemVersion
    machine: str
    commit: Commit  # of the alert, else of the detector
    previous_commit: Commit
    state: TriageState
    regressions: tuple[Regression, ...]  # as of the newest analysis: times first, the largest first
    gone: tuple[AlertedSeries, ...]  # of the alert, and no longer found by the detector
    matching: int  # series that match the filter; `regressions` has the first of them
    total: int
    severity: float  # sum of statistics.severity, in nats
    alert: RegressionAlert | None

    @property
    def typical_severity(self) -> float:
        """Mean severity of a series, in nats."""
        return self.severity / max(self.total, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageFilter:
    """Filter and order of triage items; None: all."""

    states: tuple[TriageState, ...] = tuple(TriageState)
    machine: str | None = None
    words: str = ""  # all must occur in the name of one of its series
    since: datetime | None = None  # the commit's date
    order: TriageOrder = TriageOrder.NEWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageList:
    """A page of the items that match a filter."""

    items: tuple[TriageItem, ...]
    total: int
    counts: Mapping[TriageState, int]  # by state, without the filter's states
    any_at_all: bool  # without any filter
    below_limits: int  # steps for the worse below the project's thresholds, which are no items
