"""Changes of a series: size, share of the machine's controls, regressions and their groups."""

import math
from dataclasses import dataclass

from .quantities import relative_change
from .series import Commit, Series
from .verdict import ChangeKind, Control


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlShare:
    """How much of a change the machine's controls did too: 1 is all of it."""

    control: Control
    value: float
    ci_low: float  # 95 %
    ci_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Magnitude:
    """A relative change with its 95 % interval."""

    value: float
    ci_low: float
    ci_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesChange:
    """A changepoint of a series, or an episode: a transient, a stay in another state of the machine, a drift.

    `index` counts the commits of the series that have a number.
    """

    index: int  # first commit of the new level
    commit: Commit
    previous_commit: Commit  # last measured commit of the old level
    range_start: Commit  # with 95 % the change came after this commit; of an episode, the commit before it
    range_end: Commit  # and by this one; of an episode, its last
    before: float
    after: float
    magnitude: float  # after / before - 1
    ci_low: float  # interval of the magnitude, 95 %
    ci_high: float
    p_value: float
    is_worse: bool
    kind: ChangeKind = ChangeKind.STEP
    p_adjusted: float | None = None  # of as much anywhere in a series without a change; None of an episode
    posterior: tuple[tuple[Commit, float], ...] = ()  # the range's commits, and how likely each is the first
    share: ControlShare | None = None  # None: no control could tell
    q_value: float | None = None  # among all series of its run; None: not judged, or not yet
    below_limit: float | None = None  # of a step too small to count by what the project states: the least that would

    @property
    def without_machine(self) -> Magnitude | None:
        """The change with the machine's part taken out, where its controls surely moved, with it or against it.

        None where other series speak for the machine: they may share what the commit changed.
        """
        if self.share is None or self.share.control is Control.OTHERS or self.magnitude <= -1:
            return None
        if self.share.ci_low <= 0 <= self.share.ci_high:
            return None
        whole = math.log1p(self.magnitude)
        value, *ends = (
            relative_change(whole * (1 - part)) for part in (self.share.value, self.share.ci_low, self.share.ci_high)
        )
        return Magnitude(value=value, ci_low=min(ends), ci_high=max(ends))


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """A change for the worse, with its series."""

    series: Series
    change: SeriesChange
    counts: bool = True  # by the limits that the project states


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionGroup:
    """Series that got worse at the same commit on the same machine, the largest first."""

    project: str
    machine: str
    commit: Commit
    previous_commit: Commit
    regressions: tuple[Regression, ...]
