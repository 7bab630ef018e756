"""By which limits a project's changes are judged here: what the project states, else the dashboard's own threshold."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..model.changepoint import SeriesChange
from ..model.series import Series
from ..model.thresholds import LimitRules, LimitsOf, StatedLimits, series_limits
from ..model.verdict import ChangeKind
from ..store import queries
from ..store.engine import Store
from ..store.policy import stated_limits

_STEPS = frozenset({ChangeKind.STEP, ChangeKind.MAY_BE_CHANCE})


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdResolver:
    """The limits of every series, and who states them."""

    threshold: float  # where no rule says otherwise
    limits: LimitsOf
    stated: StatedLimits | None  # None: the project states nothing

    @property
    def policy(self) -> str | None:
        """The name of the stated limits: "warpwatch.toml of 1234abcd"."""
        return self.stated.name if self.stated is not None else None

    def mark_below_threshold(self, series: Series, changes: Iterable[SeriesChange]) -> tuple[SeriesChange, ...]:
        """The changes of a series, those steps marked that lie below its limits."""
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
    """`threshold` is the dashboard's, for what the project leaves open; `threshold_of_all` a reader's, above all rules.

    The same as `warpwatch check` and the gate go by, once the file they read was stated.
    """
    stated = stated_limits(store, project)
    rules = stated or LimitRules()
    workloads = queries.project_workloads(store, project) if rules.rules else {}
    return ThresholdResolver(
        threshold=threshold_of_all or rules.threshold or threshold,
        limits=series_limits(rules, workloads, threshold=threshold, threshold_of_all=threshold_of_all),
        stated=stated,
    )


def step_thresholds(store: Store, project: str) -> ThresholdResolver:
    """For what a history shows, where only what the project states keeps a step from counting (regressions.py)."""
    return store.cached(project, "step thresholds", lambda: threshold_resolver(store, project, threshold=0.0))
