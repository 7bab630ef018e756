"""Explanation of a triage item: where the change came from, suspects, and how to see it again."""

import math
from dataclasses import dataclass

from ..model.alert import TriageItem
from ..model.changepoint import Magnitude, Regression, SeriesChange
from ..model.quantities import relative_change
from ..model.series import Commit
from ..model.verdict import Control
from ..store.queries.compiled_code import CodeBetween
from .causes import cause_sentence
from .next_measurement import MeasureAgain, gate_command, measure_again


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsOfChange:
    """A change as the product of the machine's and the kernel's relative changes."""

    machine: Magnitude
    kernel: Magnitude
    control: Control  # which controls show the machine's part


def parts_of_change(change: SeriesChange) -> PartsOfChange | None:
    """The parts with 95 % intervals from the scatter of the controls.

    None without controls, or with other series only, as the commit may have changed them too.
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
    """A commit that may have caused the change."""

    commit: Commit
    probability: float  # posterior; all sum to at least 95 %, with those left out


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageDetails:
    """Explanation of one item; None or empty: not known."""

    worst: Regression | None  # the one explained
    cause: str  # machine or code, in a sentence
    parts: PartsOfChange | None
    code: CodeBetween | None
    suspects: tuple[Suspect, ...]  # in order
    unlikely: int  # further commits of the range with a negligible probability
    unmeasured: int  # commits without results between the last good and the first bad one
    log: str  # command that lists the commits of the range
    reproduce: str | None
    next_measurement: MeasureAgain | None

    @property
    def likeliest(self) -> Suspect | None:
        """The commit of the highest probability."""
        return max(self.suspects, key=lambda one: one.probability, default=None)


def triage_details(item: TriageItem, code: CodeBetween | None) -> TriageDetails:
    """The explanation of an item, from its worst series."""
    stated = item.alert.stated if item.alert else None
    ends = (stated.previous_commit, stated.commit) if stated else (item.previous_commit, item.commit)
    unmeasured = ends[1].unmeasured_before or 0
    if not item.regressions:
        return TriageDetails(
            worst=None,
            cause="",
            parts=None,
            code=code,
            suspects=(),
            unlikely=0,
            unmeasured=unmeasured,
            log=_log(*ends),
            reproduce=None,
            next_measurement=None,
        )
    worst = item.regressions[0]
    change = worst.change
    suspects = _suspects(change)
    if not stated and suspects and all(suspect.commit.hash != ends[1].hash for suspect in suspects):
        ends = (change.range_start, change.range_end)  # else the commands would search outside the likely range
    return TriageDetails(
        worst=worst,
        cause=cause_sentence(change, worst.series.metric),
        parts=parts_of_change(change),
        code=code,
        suspects=suspects,
        unlikely=len(change.posterior) - len(suspects),
        unmeasured=unmeasured,
        log=_log(*ends),
        reproduce=gate_command(worst.series, *ends),
        next_measurement=measure_again(worst.series, change),
    )


def _suspects(change: SeriesChange) -> tuple[Suspect, ...]:
    """Commits of the range with a probability of 0.1 % or, if none has that, the largest."""
    most = max((probability for _, probability in change.posterior), default=0.0)
    least = min(_LEAST_PROBABILITY, most)
    return tuple(Suspect(commit=commit, probability=p) for commit, p in change.posterior if p >= least)


def _log(base: Commit, head: Commit) -> str:
    return f"git log --oneline {base.hash}..{head.hash}"
