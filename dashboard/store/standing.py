"""How a workload x implementation stands: its newest number, what the detector says of it, and what that rests on."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.store.records import OverviewRow
from warpwatch.dashboard.verdict import Verdict


class State(StrEnum):
    """What there is to say of a row, the most urgent first. A verdict, or why there cannot be one yet."""

    REGRESSED = "regressed"
    STOPPED = "stopped"  # its machine goes on without it
    INVALID = "invalid"
    UNJUDGED = "unjudged"  # its level moved; whether the machine did it is being judged
    IMPROVED = "improved"
    MAY_BE_CHANCE = "may-be-chance"  # its level moved, and among so many series chance alone may look so
    UNCHANGED = "unchanged"
    NEW_CARD = "new-card"  # too few commits on this physical card, and cards are not compared
    NEW = "new"  # too few commits
    MISSING = "missing"


_OF_VERDICT = {
    Verdict.REGRESSED: State.REGRESSED,
    Verdict.INVALID: State.INVALID,
    Verdict.IMPROVED: State.IMPROVED,
    Verdict.UNCHANGED: State.UNCHANGED,
    Verdict.MISSING: State.MISSING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """An overview's row with what is to say of it.

    `month` and `year` are what the steps that the detector found in the 30 and the 365 days before the newest commit
    amount to: levels against levels of one card, without what the machine did. 0.0 is no step.
    """

    row: OverviewRow
    is_stopped: bool
    card: str | None  # the physical GPU of the newest run
    card_commits: int  # that this card measured under the machine's name
    month: float
    year: float
    since: datetime  # the machine's first data: no change can be told from before

    @property
    def state(self) -> State:
        """What to say of it."""
        if self.is_stopped:
            return State.STOPPED
        if self.row.verdict is not Verdict.INCONCLUSIVE:
            return _OF_VERDICT[self.row.verdict]
        if self.row.change_kind is not None:
            return State.MAY_BE_CHANCE if self.row.change_kind is ChangeKind.MAY_BE_CHANCE else State.UNJUDGED
        return State.NEW_CARD if self.card is not None and self.numbers > self.card_commits else State.NEW

    @property
    def states(self) -> frozenset[State]:
        """Its state, and those of the other metrics of the measurement that moved another way."""
        return frozenset({self.state, *(_OF_VERDICT[other.verdict] for other in self.row.beside)})

    @property
    def numbers(self) -> int:
        """How many of its newest 40 commits have a number, on whichever card."""
        return sum(value is not None for value in self.row.sparkline)
