"""Regressions that count, grouped into one alert per machine and commit range."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warpwatch.dashboard.model.changepoint import Magnitude, Regression, RegressionGroup, SeriesChange
from warpwatch.dashboard.model.series import Commit
from warpwatch.dashboard.model.verdict import ChangeKind

from ..policy.policy_model import AlertsTable

# Changes caused by the machine have a kind of their own (machine state) and are reported with the runner's health. Of a
# step with a part of the machine, the rest counts.

_HALF = 0.5  # of a small loss, that may remain in a recovered level


def own_change(change: SeriesChange) -> Magnitude:
    """The change without the machine's part, as estimated from controls."""
    return change.without_machine or Magnitude(value=change.magnitude, ci_low=change.ci_low, ci_high=change.ci_high)


def is_reportable(regression: Regression, policy: AlertsTable, levels: Sequence[SeriesChange]) -> bool:
    """Whether the regression is large enough and not over. `levels` are all changes of its series, in order."""
    change = regression.change
    own = own_change(change)
    if own.value * change.magnitude <= 0:  # without the machine's part it improved
        return False
    return abs(own.value) >= policy.threshold and not is_over(change, levels, policy.recovered_within)


def is_over(change: SeriesChange, levels: Iterable[SeriesChange], within: float) -> bool:
    """Whether the level recovered: at most `within`, and half of the change, worse than before.

    The current level is that of the newest segment, without later changes of machine state.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRange:
    """The commits after `start` up to `end` that may contain a change."""

    start: Commit
    end: Commit

    def overlap(self, other: "CommitRange") -> "CommitRange | None":
        """The intersection; None if it is empty."""
        start = max(self.start, other.start, key=_place)
        end = min(self.end, other.end, key=_place)
        return CommitRange(start=start, end=end) if start.position < end.position else None

    def is_inside(self, other: "CommitRange") -> bool:
        """Whether it is a proper subset."""
        ends = (self.start.position, self.end.position), (other.start.position, other.end.position)
        return ends[0] != ends[1] and ends[0][0] >= ends[1][0] and ends[0][1] <= ends[1][1]


def _place(commit: Commit) -> int:
    return commit.position


def range_of(regression: Regression) -> CommitRange:
    """The 95 % range of the regression's changepoint."""
    return CommitRange(start=regression.change.range_start, end=regression.change.range_end)


def common_range(regressions: Sequence[Regression]) -> CommitRange:
    """The intersection of all ranges; contradicting ranges give way to narrower ones."""
    by_width = sorted(regressions, key=_width)
    found = range_of(by_width[0])
    for one in by_width[1:]:
        found = found.overlap(range_of(one)) or found
    return found


def _width(one: Regression) -> tuple[int, float]:
    its = range_of(one)
    return its.end.position - its.start.position, -abs(own_change(one.change).value)


def group(project: str, regressions: Iterable[Regression]) -> tuple[RegressionGroup, ...]:
    """Groups regressions of one machine with overlapping commit ranges, newest first, from the narrowest range on.

    A wide range that overlaps several groups joins the one whose commit has the largest posterior probability.
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
    """One group, largest change first. Its commits are those of the regression with the narrowest range."""
    surest = min(regressions, key=_width)
    ordered = sorted(regressions, key=lambda one: (not one.series.metric.is_time, -abs(own_change(one.change).value)))
    return RegressionGroup(
        project=project,
        machine=surest.series.machine,
        commit=surest.change.commit,
        previous_commit=surest.change.previous_commit,
        regressions=tuple(ordered),
    )
