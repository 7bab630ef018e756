"""Changes of a series: size, share of the machine's controls, regressions and their groups."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from .quantities import relative_change
from .series import Commit, Series
from .verdict import ChangeKind, Control, DeclineCause


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlShare:
    """The machine's share of a change, by its controls: 1 is all of it."""

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
    """A changepoint of a series, or an episode: a transient, a stay in another state of the machine, a drift,
    a slow decline.

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
    p_adjusted: float | None = None  # adjusted for the selection of the commit; None of an episode
    posterior: tuple[tuple[Commit, float], ...] = ()  # commits of the range, with the probability of each
    share: ControlShare | None = None  # None: no controls
    q_value: float | None = None  # among all series of its run; None: not classified
    below_limit: float | None = None  # of a step below its threshold: that threshold
    is_across_gpus: bool = False  # no GPU measured both the commit and the one before; values are GPU-adjusted
    gpus: int | None = None  # that measured the new level, of GPU-adjusted values
    is_confirmed: bool = False  # by runs of both commits in turns
    causes: Mapping[DeclineCause, float] = field(default_factory=dict)  # of a slow decline: relative change by cause

    @property
    def without_machine(self) -> Magnitude | None:
        """The change without the machine's part, if the controls changed significantly.

        None if other series are the controls, as the commit may have changed them too.
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
    counts: bool = True  # by the project's thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionGroup:
    """Regressions at one commit on one machine, the largest first."""

    project: str
    machine: str
    commit: Commit
    previous_commit: Commit
    regressions: tuple[Regression, ...]
