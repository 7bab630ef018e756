"""What rules say of one series."""

from collections.abc import Mapping
from typing import Any

from warpwatch.dashboard.limit_rules.floor import Floor
from warpwatch.dashboard.limit_rules.limits import Limits, LimitsOf
from warpwatch.dashboard.limit_rules.rules import LimitRules
from warpwatch.dashboard.store.records import Series, Workload

Workloads = Mapping[tuple[str, str], Workload]
"""By suite and name, as `queries.project_workloads` tells them."""


def series_limits(
    stated: LimitRules, workloads: Workloads, *, threshold: float, threshold_of_all: float | None = None
) -> LimitsOf:  # fmt: skip
    """The limits of each series: of every key, the last rule that matches the series and states that key.

    What no rule states is what holds for all, and what nobody states the default: `threshold`, no floor, blocking,
    nobody's. With `threshold_of_all` no rule is asked for a threshold.
    """

    def limits(series: Series) -> Limits:
        workload = workloads.get((series.suite, series.workload or ""))
        said: dict[str, Any] = {"threshold": stated.threshold or threshold, "floor": stated.floor,
                                "blocks": stated.blocks, "owners": ()}  # fmt: skip
        for rule in stated.rules:
            if rule.matches(series, workload):
                said |= rule.stated
        return Limits(
            threshold=threshold_of_all or said["threshold"], floor=_floor(said["floor"], series),
            blocks=said["blocks"], owners=said["owners"],
        )  # fmt: skip

    return limits


def _floor(floor: Floor | None, series: Series) -> float:
    """0 where there is none, or it is one of another quantity."""
    return (floor.of(series.metric) or 0.0) if floor is not None else 0.0
