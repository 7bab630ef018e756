"""A regression as people triage it: a card for each commit range and machine, with or without an alert yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .alert import AlertedSeries, RegressionAlert
from .changepoint import Regression
from .series import Commit


class TriageState(StrEnum):
    """Where a card stands: that of its alert, or that nobody has looked at it yet."""

    UNTRIAGED = "untriaged"
    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    EXPECTED = "expected"
    FALSE_ALARM = "false alarm"
    RESOLVED = "resolved"


WAITING = (TriageState.UNTRIAGED, TriageState.OPEN, TriageState.ACKNOWLEDGED)  # for somebody to do something


class TriageOrder(StrEnum):
    """Which cards come first."""

    NEWEST = "newest"
    WORST = "worst"  # by statistics.severity, over all series of the card


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemVersion:
    """A card as somebody saw it: what a decision is about. `version` is another one once the card has changed."""

    key: str  # "alert-12", or of one without an alert the commit's hash and the machine's number: "new-4f…-3"
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageItem:
    """Series of one machine that got worse at one commit, and what people made of it."""

    seen: ItemVersion
    machine: str
    commit: Commit  # as the alert has it, else as the detector
    previous_commit: Commit
    state: TriageState
    regressions: tuple[Regression, ...]  # what the detector tells of its series now: times first, the largest first
    gone: tuple[AlertedSeries, ...]  # of the alert, and no longer told by the detector
    matching: int  # series of the card that the filter finds; of them some are in `regressions`
    total: int
    severity: float  # statistics.severity over the card's series, in nats
    alert: RegressionAlert | None

    @property
    def typical_severity(self) -> float:
        """What a series of it lost on average, in nats."""
        return self.severity / max(self.total, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageFilter:
    """Which cards are wanted; None: of all."""

    states: tuple[TriageState, ...] = tuple(TriageState)
    machine: str | None = None
    words: str = ""  # all of which the name of one of its series holds
    since: datetime | None = None  # the commit's date
    order: TriageOrder = TriageOrder.NEWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageList:
    """Some of the cards that a filter wants."""

    items: tuple[TriageItem, ...]
    total: int
    counts: Mapping[TriageState, int]  # of all standings, whichever are wanted
    any_at_all: bool  # without any filter
    below_limits: int  # steps for the worse that are no card, for the project states that they count for nothing
