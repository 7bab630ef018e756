"""By which limits a project's changes are judged here: what the project states, else the dashboard's own threshold."""

from dataclasses import dataclass

from warpwatch.dashboard.limit_rules.limits import LimitsOf
from warpwatch.dashboard.limit_rules.rules import LimitRules
from warpwatch.dashboard.limit_rules.series_limits import series_limits
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.stated_limits import StatedLimits, stated_limits
from warpwatch.dashboard.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBy:
    """The limits of every series, and who states them."""

    threshold: float  # where no rule says otherwise
    limits: LimitsOf
    stated: StatedLimits | None  # None: the project states nothing


def judged_by(store: Store, project: str, *, threshold: float, threshold_of_all: float | None = None) -> JudgedBy:
    """`threshold` is the dashboard's, for what the project leaves open; `threshold_of_all` a reader's, above all rules.

    The same as `warpwatch check` and the gate go by, once the file they read was stated.
    """
    stated = stated_limits(store, project)
    rules = stated or LimitRules()
    return JudgedBy(
        threshold=threshold_of_all or rules.threshold or threshold,
        limits=series_limits(
            rules, queries.project_workloads(store, project), threshold=threshold, threshold_of_all=threshold_of_all
        ),
        stated=stated,
    )
