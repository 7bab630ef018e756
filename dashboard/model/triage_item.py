"""A regression as people triage it: a card for each commit range and machine, with or without an alert yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .alert import AlertedSeries, RegressionAlert
from .changepoint import Regression
from .series import Commit


class Standing(StrEnum):
    """Where a card stands: that of its alert, or that nobody has looked at it yet."""

    UNTRIAGED = "untriaged"
    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    EXPECTED = "expected"
    FALSE_ALARM = "false alarm"
    RESOLVED = "resolved"


WAITING = (Standing.UNTRIAGED, Standing.OPEN, Standing.ACKNOWLEDGED)  # for somebody to do something


class CardOrder(StrEnum):
    """Which cards come first."""

    NEWEST = "newest"
    WORST = "worst"  # by statistics.sure_loss, over all series of the card


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A card as somebody saw it: what a decision is about. `version` is another one once the card has changed."""

    key: str  # "alert-12", or of one without an alert the commit's hash and the machine's number: "new-4f…-3"
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Series of one machine that got worse at one commit, and what people made of it."""

    seen: Seen
    machine: str
    commit: Commit  # as the alert has it, else as the detector
    previous_commit: Commit
    standing: Standing
    regressions: tuple[Regression, ...]  # what the detector tells of its series now: times first, the largest first
    gone: tuple[AlertedSeries, ...]  # of the alert, and no longer told by the detector
    matching: int  # series of the card that the filter finds; of them some are in `regressions`
    total: int
    loss: float  # statistics.sure_loss over the card's series, in nats
    alert: RegressionAlert | None

    @property
    def typical_loss(self) -> float:
        """What a series of it lost on average, in nats."""
        return self.loss / max(self.total, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFilter:
    """Which cards are wanted; None: of all."""

    standings: tuple[Standing, ...] = tuple(Standing)
    machine: str | None = None
    words: str = ""  # all of which the name of one of its series holds
    since: datetime | None = None  # the commit's date
    order: CardOrder = CardOrder.NEWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class CardList:
    """Some of the cards that a filter wants."""

    cards: tuple[Card, ...]
    total: int
    counts: Mapping[Standing, int]  # of all standings, whichever are wanted
    any_at_all: bool  # without any filter
    below_limits: int  # steps for the worse that are no card, for the project states that they count for nothing
