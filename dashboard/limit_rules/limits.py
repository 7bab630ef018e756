"""What a change of one series has to be to count, and whether it then stops anybody: what rules state by series."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from warpwatch.dashboard.store.records import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one series."""

    threshold: float  # smallest relative change that matters
    floor: float = 0.0  # smallest absolute one, in the unit of the metric
    blocks: bool = True  # whether its regression fails a check, or is only told
    owners: tuple[str, ...] = ()

    def counts_from(self, base: float | None, head: float | None) -> float:
        """The smallest relative change that counts from this level on: of a short call, the floor is a large share.

        From zero there is no share, and the floor alone decides; infinite where the change is below it.
        """
        if base:
            return max(self.threshold, self.floor / abs(base))
        return math.inf if head is not None and abs(head) < self.floor else self.threshold

    def counts(self, before: float, after: float, change: float) -> bool:
        """Whether a relative change from one level to another does."""
        return abs(change) >= self.counts_from(before, after)


LimitsOf = Callable[[Series], Limits]
