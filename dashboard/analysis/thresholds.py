"""Thresholds of a project's series: by its policy, else the dashboard's default."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..model.changepoint import SeriesChange
from ..model.series import Series
from ..model.thresholds import LimitRules, LimitsOf, StatedLimits, series_limits
from ..model.verdict import ChangeKind
from ..store import queries
from ..store.engine import Store, cached
from ..store.policy import stated_limits

_STEPS = frozenset({ChangeKind.STEP, ChangeKind.NOT_SIGNIFICANT})


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdResolver:
    """Thresholds of every series, and their source."""

    threshold: float  # where no rule applies
    limits: LimitsOf
    stated: StatedLimits | None  # None: the project has no policy

    @property
    def policy(self) -> str | None:
        """Name of the policy: "warpwatch.toml of 1234abcd"."""
        return self.stated.name if self.stated is not None else None

    def mark_below_threshold(self, series: Series, changes: Iterable[SeriesChange]) -> tuple[SeriesChange, ...]:
        limits = self.limits(series)
        return tuple(
            change
            if change.kind not in _STEPS or limits.counts(change.before, change.after, change.magnitude)
            else replace(change, below_limit=limits.min_relative_change(change.before, change.after))
            for change in changes
        )


def threshold_resolver(
    store: Store, project: str, *, threshold: float, threshold_of_all: float | None = None
) -> ThresholdResolver:
    """Resolver of a project, as `warpwatch check` and the gate use it.

    `threshold`: the dashboard's default; `threshold_of_all`: a reader's, which overrides all rules.
    """
    stated = stated_limits(store, project)
    rules = stated or LimitRules()
    workloads = queries.project_workloads(store, project) if rules.rules else {}
    return ThresholdResolver(
        threshold=threshold_of_all or rules.threshold or threshold,
        limits=series_limits(rules, workloads, threshold=threshold, threshold_of_all=threshold_of_all),
        stated=stated,
    )


@cached()
def step_thresholds(store: Store, project: str) -> ThresholdResolver:
    """Resolver for the steps of a history: without a policy every step counts (regressions.py)."""
    return threshold_resolver(store, project, threshold=0.0)
