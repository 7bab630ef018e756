"""Explanation of a triage item: where the change came from, suspects, and how to see it again."""

import math
from dataclasses import dataclass

from ..model.changepoint import Magnitude, Regression, SeriesChange
from ..model.quantities import relative_change
from ..model.series import Commit
from ..model.triage_item import TriageItem
from ..model.verdict import Control
from ..store.queries.compiled_code import CodeBetween
from .next_measurement import MeasureAgain, gate_command, measure_again

# A change taken apart: what the machine did, as its controls show, and what remains for the kernel.


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsOfChange:
    """Both parts as relative changes; one after the other they make the whole."""

    machine: Magnitude
    kernel: Magnitude
    control: Control  # who spoke for the machine


def parts_of_change(change: SeriesChange) -> PartsOfChange | None:
    """The parts with their 95 % intervals, which come from how the controls scatter.

    None where no control could tell, and where the machine's other series spoke: they may share what the commit did.
    """
    share = change.share
    if share is None or share.control is Control.OTHERS or change.magnitude <= -1:
        return None
    whole = math.log1p(change.magnitude)
    ends = (share.value, share.ci_low, share.ci_high)
    return PartsOfChange(
        machine=_magnitude(*(relative_change(whole * part) for part in ends)),
        kernel=_magnitude(*(relative_change(whole * (1 - part)) for part in ends)),
        control=share.control,
    )


def _magnitude(value: float, *ends: float) -> Magnitude:
    return Magnitude(value=value, ci_low=min(ends), ci_high=max(ends))


_LEAST_PROBABILITY = 0.0005  # rounds to 0.1 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A commit with which the change may have come."""

    commit: Commit
    probability: float  # by the values; with those left out they add up to 95 % and more


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageDetails:
    """One card's; what is None or empty is not known."""

    worst: Regression | None  # of which the rest speaks
    parts: PartsOfChange | None
    code: CodeBetween | None
    suspects: tuple[Suspect, ...]  # in order
    unlikely: int  # further commits among or beside them, which the values all but rule out
    unmeasured: int  # commits between the last good one and the first bad one, without results
    log: str  # the command that lists the commits, the suspects among them
    reproduce: str | None
    wanted: MeasureAgain | None

    @property
    def likeliest(self) -> Suspect | None:
        """The commit that most likely brought it."""
        return max(self.suspects, key=lambda one: one.probability, default=None)


def triage_details(card: TriageItem, code: CodeBetween | None) -> TriageDetails:
    """The story of a card, told by its worst series."""
    stated = card.alert.stated if card.alert else None
    ends = (stated.previous_commit, stated.commit) if stated else (card.previous_commit, card.commit)
    unmeasured = ends[1].unmeasured_before or 0
    if not card.regressions:
        return TriageDetails(
            worst=None,
            parts=None,
            code=code,
            suspects=(),
            unlikely=0,
            unmeasured=unmeasured,
            log=_log(*ends),
            reproduce=None,
            wanted=None,
        )
    worst = card.regressions[0]
    change = worst.change
    suspects = _suspects(change)
    if not stated and suspects and all(each.commit.hash != ends[1].hash for each in suspects):
        ends = (change.range_start, change.range_end)  # else the commands would look where it hardly is
    return TriageDetails(
        worst=worst,
        parts=parts_of_change(change),
        code=code,
        suspects=suspects,
        unlikely=len(change.posterior) - len(suspects),
        unmeasured=unmeasured,
        log=_log(*ends),
        reproduce=gate_command(worst.series, *ends),
        wanted=measure_again(worst.series, change),
    )


def _suspects(change: SeriesChange) -> tuple[Suspect, ...]:
    """The commits of its range that may have brought it. Where many are alike, all are, however little each holds."""
    most = max((probability for _, probability in change.posterior), default=0.0)
    least = min(_LEAST_PROBABILITY, most)
    return tuple(Suspect(commit=commit, probability=p) for commit, p in change.posterior if p >= least)


def _log(base: Commit, head: Commit) -> str:
    return f"git log --oneline {base.hash}..{head.hash}"
