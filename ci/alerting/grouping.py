"""Which regressions are told together: those of one machine whose commit ranges have a commit in common.

One commit shows in many series, in each with its own certainty: one says "at commit 40", another "between 38 and 43".
Both are one alert, and the commits that all of them allow are its range.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warpwatch.ci.alerting.counting import own_change
from warpwatch.dashboard.store.records import Commit, Regression, RegressionGroup


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
        project=project, machine=surest.series.machine, commit=surest.change.commit,
        previous_commit=surest.change.previous_commit, regressions=tuple(ordered),
    )  # fmt: skip
