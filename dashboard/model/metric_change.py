"""Changes of a kernel by metric and direction: "latency ▼29 % in 7 of 24"."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from .metric import Metric
from .series import Series
from .verdict import Verdict

_LEADING = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSeries:
    series: Series
    verdict: Verdict  # regressed or improved
    change: float | None  # relative, signed
    is_across_gpus: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChange:
    """Series of one metric that changed in one direction."""

    implementation: str  # empty: the kernel's first one
    metric: Metric
    verdict: Verdict
    change: float | None  # geometric mean; −1 where all fell to zero
    count: int
    of: int  # series of the metric and the implementation
    is_across_gpus: bool  # of all of them

    @property
    def is_of_all(self) -> bool:
        return self.count == self.of


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChanges:
    """All changes of a kernel: the first implementation's, then others'; latency first, then by direction."""

    every: tuple[MetricChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.every)

    @property
    def leading(self) -> tuple[MetricChange, ...]:
        """At most three: our latency, what regressed, our other metrics.

        A warm or steady latency is left out where the latency changed in the same direction, as it restates that.
        """
        own = [each for each in self.every if not each.implementation]
        latencies = [each for each in own if each.metric.is_latency]
        directions = {each.verdict for each in latencies}
        worse = [each for each in self.every if each.verdict is Verdict.REGRESSED]
        others = [
            each
            for each in (*worse, *own, *self.every)
            if not (each.metric.follows_machine and not each.implementation and each.verdict in directions)
        ]
        return tuple(dict.fromkeys([*latencies, *others]))[:_LEADING]

    @property
    def further(self) -> tuple[MetricChange, ...]:
        leading = self.leading
        return tuple(each for each in self.every if each not in leading)


def metric_changes(
    changed: Iterable[ChangedSeries], first: str | None, count_of: Callable[[Metric, str | None], int]
) -> MetricChanges:
    """Group changed series by metric and direction.

    `first`: the kernel's first implementation; `count_of`: number of series by metric and implementation.
    """
    groups: dict[tuple[str, Metric, Verdict], list[ChangedSeries]] = {}
    for each in changed:
        name = each.series.implementation
        groups.setdefault((name if name and name != first else "", each.series.metric, each.verdict), []).append(each)
    found = [
        MetricChange(
            implementation=implementation,
            metric=metric,
            verdict=verdict,
            change=_mean([each.change for each in group if each.change is not None]),
            count=len(group),
            of=count_of(metric, implementation or first),
            is_across_gpus=all(each.is_across_gpus for each in group),
        )
        for (implementation, metric, verdict), group in groups.items()
    ]
    return MetricChanges(every=tuple(sorted(found, key=_order)))


def _mean(changes: Sequence[float]) -> float | None:
    logs = [math.log1p(change) for change in changes if change > -1]
    return math.expm1(fmean(logs)) if logs else min(changes, default=None)


def _order(change: MetricChange) -> tuple[object, ...]:
    is_other, is_better = bool(change.implementation), change.verdict is Verdict.IMPROVED
    return (is_other, not change.metric.is_latency, is_better, change.implementation, change.metric.label)
