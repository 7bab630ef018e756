"""What a policy says of one series."""

from collections.abc import Mapping
from typing import Any

from warpwatch.ci.policy.floor import Floor
from warpwatch.ci.policy.policy import Policy
from warpwatch.dashboard.limits import Limits, LimitsOf
from warpwatch.dashboard.store.records import Series, Workload

Workloads = Mapping[tuple[str, str], Workload]
"""By suite and name, as `queries.project_workloads` tells them."""


def series_limits(
    policy: Policy, workloads: Workloads, *, threshold: float, threshold_of_all: float | None = None
) -> LimitsOf:  # fmt: skip
    """The limits of each series: of every key, the last `[[rule]]` that matches the series and states that key.

    What no rule states is `[gate]`'s, and what that does not state the default: `threshold`, no floor, blocking,
    nobody's. With `threshold_of_all` neither file nor rule is asked for a threshold.
    """

    def limits(series: Series) -> Limits:
        workload = workloads.get((series.suite, series.workload or ""))
        stated: dict[str, Any] = {"threshold": policy.gate.threshold or threshold, "floor": policy.gate.floor,
                                  "blocks": policy.gate.blocks, "owners": ()}  # fmt: skip
        for rule in policy.rule:
            if rule.matches(series, workload):
                stated |= rule.stated
        return Limits(
            threshold=threshold_of_all or stated["threshold"], floor=_floor(stated["floor"], series),
            blocks=stated["blocks"], owners=stated["owners"],
        )  # fmt: skip

    return limits


def _floor(floor: Floor | None, series: Series) -> float:
    """0 where there is none, or it is one of another quantity."""
    return (floor.of(series.metric) or 0.0) if floor is not None else 0.0
