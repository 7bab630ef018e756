"""Regressions as people triage them: an item for each commit range and machine, with or without an alert yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .alert import AlertedSeries, RegressionAlert
from .changepoint import Regression
from .metric import Metric
from .series import Commit


class TriageState(StrEnum):
    """State of a triage item: that of its alert, or untriaged."""

    UNTRIAGED = "untriaged"
    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    EXPECTED = "expected"
    FALSE_ALARM = "false alarm"
    RESOLVED = "resolved"


WAITING = (TriageState.UNTRIAGED, TriageState.OPEN, TriageState.ACKNOWLEDGED)  # a person has to act


class TriageOrder(StrEnum):
    """Order of triage items."""

    NEWEST = "newest"
    WORST = "worst"  # by the sum of the severities of their series


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemVersion:
    """A triage item as a person saw it when deciding; `version` changes with the item."""

    key: str  # "alert-12"; without an alert "new-4f…-3", from the commit's hash and the machine's id
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanSeverity:
    """Mean severity of an item's series of one metric."""

    metric: Metric
    mean: float  # of `statistics.summary.severity`, in nats
    series: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageItem:
    """Series of one machine that regressed at one commit, and the decisions on them."""

    seen: ItemVersion
    machine: str
    commit: Commit  # of the alert, else of the detector
    previous_commit: Commit
    state: TriageState
    regressions: tuple[Regression, ...]  # as detected now: times first, the largest first
    gone: tuple[AlertedSeries, ...]  # in the alert, no longer detected
    matching: int  # series that pass the filter; `regressions` may be fewer
    total: int
    severity: MeanSeverity | None  # of its first metric: latency, other times, the rest; None: no significant change
    alert: RegressionAlert | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageFilter:
    """Which triage items to list, and in which order; None: no restriction."""

    states: tuple[TriageState, ...] = tuple(TriageState)
    machine: str | None = None
    words: str = ""  # all must occur in the name of one of the item's series
    since: datetime | None = None  # the commit's date
    order: TriageOrder = TriageOrder.NEWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageList:
    """One page of the triage items that pass a filter."""

    items: tuple[TriageItem, ...]
    total: int
    counts: Mapping[TriageState, int]  # of every state, whichever the filter has
    any_at_all: bool  # without any filter
    below_limits: int  # steps for the worse below the project's thresholds, which are in no item
