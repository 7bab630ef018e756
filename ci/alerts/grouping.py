"""Regressions that count, grouped into one alert per machine and commit range."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warpwatch.dashboard.model.changepoint import Magnitude, Regression, RegressionGroup, SeriesChange
from warpwatch.dashboard.model.series import Commit
from warpwatch.dashboard.model.verdict import ChangeKind

from ..policy.policy_model import AlertsTable

# What counts as news: steps for the worse that are large enough without the machine's part, and not over already.
#
# What the machine did is no commit's doing: such changes have a kind of their own (machine state) and are told with
# the machine's health. Of a step that the machine has a part in, what remains without it counts.

_HALF = 0.5  # of what was lost, that may be missing still where the whole was little


def own_change(change: SeriesChange) -> Magnitude:
    """The change without the machine's part, where controls told of one."""
    return change.without_machine or Magnitude(value=change.magnitude, low=change.low, high=change.high)


def is_reportable(regression: Regression, policy: AlertsTable, levels: Sequence[SeriesChange]) -> bool:
    """Whether the regression is large enough and not over. `levels` are all changes of its series, in order."""
    change = regression.change
    own = own_change(change)
    if own.value * change.magnitude <= 0:  # without the machine it got better
        return False
    return abs(own.value) >= policy.threshold and not is_over(change, levels, policy.recovered_within)


def is_over(change: SeriesChange, levels: Iterable[SeriesChange], within: float) -> bool:
    """Whether the level is back: at most `within` worse than before the change, and half of it where that is less.

    The level now is that of the newest segment, without what the machine did on the way.
    """
    lost = own_change(change)
    since = [each for each in levels if each.index > change.index]
    if not since:
        return False
    growth, level = 0.0, change.after
    for each in (change, *since):
        if each.kind is not ChangeKind.MACHINE_STATE:
            own = own_change(each).value
            growth = growth + math.log1p(own) if own > -1 and math.isfinite(own) else math.nan
        level = each.after
    worse = math.copysign(1.0, change.magnitude)
    if math.isnan(growth) or not change.before:  # from 0, or to 0: there is no ratio
        return (level - change.before) * worse <= 0
    return math.expm1(growth) * worse <= min(within, abs(lost.value) * _HALF)


# Which regressions are told together: those of one machine whose commit ranges have a commit in common.
#
# One commit shows in many series, in each with its own certainty: one says "at commit 40", another "between 38 and
# 43". Both are one alert, and the commits that all of them allow are its range.


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRange:
    """After `start`, and by `end`: where a change lies."""

    start: Commit
    end: Commit

    def overlap(self, other: "CommitRange") -> "CommitRange | None":
        """The commits of both; None without any."""
        start = max(self.start, other.start, key=_place)
        end = min(self.end, other.end, key=_place)
        return CommitRange(start=start, end=end) if start.position < end.position else None

    def is_inside(self, other: "CommitRange") -> bool:
        """Whether it is narrower, and no commit of it is outside."""
        ends = (self.start.position, self.end.position), (other.start.position, other.end.position)
        return ends[0] != ends[1] and ends[0][0] >= ends[1][0] and ends[0][1] <= ends[1][1]


def _place(commit: Commit) -> int:
    return commit.position


def range_of(regression: Regression) -> CommitRange:
    """The range that the regression itself tells."""
    return CommitRange(start=regression.change.range_start, end=regression.change.range_end)


def common_range(regressions: Sequence[Regression]) -> CommitRange:
    """The commits that all of them allow; of series that contradict each other those that the surest do."""
    by_width = sorted(regressions, key=_width)
    found = range_of(by_width[0])
    for one in by_width[1:]:
        found = found.overlap(range_of(one)) or found
    return found


def _width(one: Regression) -> tuple[int, float]:
    its = range_of(one)
    return its.end.position - its.start.position, -abs(own_change(one.change).value)


def group(project: str, regressions: Iterable[Regression]) -> tuple[RegressionGroup, ...]:
    """Groups by machine and range, the newest first; each is built around its surest series.

    A wide range that overlaps several groups joins the one whose commit it holds most likely.
    """
    groups: list[list[Regression]] = []
    ranges: list[CommitRange] = []
    for one in sorted(regressions, key=_width):
        its = range_of(one)
        fitting = [
            number
            for number, so_far in enumerate(ranges)
            if groups[number][0].series.machine == one.series.machine and so_far.overlap(its) is not None
        ]
        if not fitting:
            groups.append([one])
            ranges.append(its)
            continue
        chance = {commit.hash: held for commit, held in one.change.posterior}
        best = max(fitting, key=lambda number: chance.get(groups[number][0].change.commit.hash, 0.0))
        groups[best].append(one)
        ranges[best] = ranges[best].overlap(its) or ranges[best]
    made = [as_group(project, its) for its in groups]
    return tuple(sorted(made, key=lambda each: (-each.commit.position, each.machine)))


def as_group(project: str, regressions: Sequence[Regression]) -> RegressionGroup:
    """Those regressions as one group. Its first bad and last good commit are its surest series'; the largest first."""
    surest = min(regressions, key=_width)
    ordered = sorted(regressions, key=lambda one: (not one.series.metric.is_time, -abs(own_change(one.change).value)))
    return RegressionGroup(
        project=project,
        machine=surest.series.machine,
        commit=surest.change.commit,
        previous_commit=surest.change.previous_commit,
        regressions=tuple(ordered),
    )
