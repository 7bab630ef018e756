"""What a card explains of itself: where the change came from, in which commits to look, and how to see it again."""

from dataclasses import dataclass

from warpwatch.dashboard.measure_again import MeasureAgain, measure_again
from warpwatch.dashboard.parts_of_change import PartsOfChange, parts_of_change
from warpwatch.dashboard.reproduce import asv_comparison
from warpwatch.dashboard.store.card_records import Card
from warpwatch.dashboard.store.queries.code_between import CodeBetween
from warpwatch.dashboard.store.records import Commit, Regression


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A commit with which the change may have come."""

    commit: Commit
    chance: float  # by the values; those of all suspects add up to 95 % and more


@dataclass(frozen=True, slots=True, kw_only=True)
class CardStory:
    """One card's; what is None or empty is not known."""

    worst: Regression | None  # of which the rest speaks
    parts: PartsOfChange | None
    code: CodeBetween | None
    suspects: tuple[Suspect, ...]  # in order
    unmeasured: int  # commits between the last good one and the first bad one, without results
    log: str  # the command that lists the commits
    reproduce: str | None
    wanted: MeasureAgain | None

    @property
    def likeliest(self) -> Suspect | None:
        """The commit that most likely brought it."""
        return max(self.suspects, key=lambda one: one.chance, default=None)


def card_story(card: Card, code: CodeBetween | None) -> CardStory:
    """The story of a card, told by its worst series."""
    stated = card.alert.stated if card.alert else None
    ends = (stated.previous_commit, stated.commit) if stated else (card.previous_commit, card.commit)
    log = f"git log --oneline {ends[0].hash}..{ends[1].hash}"
    unmeasured = ends[1].unmeasured_before or 0
    if not card.regressions:
        return CardStory(
            worst=None, parts=None, code=code, suspects=(), unmeasured=unmeasured, log=log, reproduce=None, wanted=None
        )
    worst = card.regressions[0]
    change = worst.change
    return CardStory(
        worst=worst,
        parts=parts_of_change(change),
        code=code,
        suspects=tuple(Suspect(commit=commit, chance=held) for commit, held in change.posterior),
        unmeasured=unmeasured,
        log=log,
        reproduce=asv_comparison(worst.series, *ends),
        wanted=measure_again(worst.series, change),
    )
