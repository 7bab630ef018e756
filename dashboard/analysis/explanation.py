"""Explanation of a triage item: where the change came from, suspects, and how to see it again."""

import math
from dataclasses import dataclass

from ..model.changepoint import Magnitude, Regression, SeriesChange
from ..model.quantities import growth
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
    ends = (share.value, share.low, share.high)
    return PartsOfChange(
        machine=_magnitude(*(growth(whole * part) for part in ends)),
        kernel=_magnitude(*(growth(whole * (1 - part)) for part in ends)),
        control=share.control,
    )


def _magnitude(value: float, *ends: float) -> Magnitude:
    return Magnitude(value=value, low=min(ends), high=max(ends))


_ALL_BUT_RULED_OUT = 0.0005  # a chance that rounds to less than 0.1 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A commit with which the change may have come."""

    commit: Commit
    chance: float  # by the values; with those left out they add up to 95 % and more


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageDetails:
    """Explanation of one item; None or empty: not known."""

    worst: Regression | None  # the one explained
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
        return max(self.suspects, key=lambda one: one.chance, default=None)


def triage_details(item: TriageItem, code: CodeBetween | None) -> TriageDetails:
    """The explanation of an item, from its worst series."""
    stated = item.alert.stated if item.alert else None
    ends = (stated.previous_commit, stated.commit) if stated else (item.previous_commit, item.commit)
    unmeasured = ends[1].unmeasured_before or 0
    if not item.regressions:
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
    worst = item.regressions[0]
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
    most = max((held for _, held in change.posterior), default=0.0)
    least = min(_ALL_BUT_RULED_OUT, most)
    return tuple(Suspect(commit=commit, chance=held) for commit, held in change.posterior if held >= least)


def _log(base: Commit, head: Commit) -> str:
    return f"git log --oneline {base.hash}..{head.hash}"
