"""What a metric's unit is, and which direction is better: the one home of both facts."""

from dataclasses import dataclass
from enum import Enum


class Better(Enum):
    """Which way a metric should move."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One measured quantity of a benchmark: its name, its unit as recorded, and which way is better."""

    name: str
    unit: str
    better: Better

    def is_worse(self, change: float) -> bool:
        """Whether a signed relative change (0.04 is 4 % more) is for the worse."""
        return change > 0 if self.better is Better.LOWER else change < 0


def metric(name: str, unit: str) -> Metric:
    """The metric called `name`, with the direction its unit implies: rates are better high, the rest low."""
    higher = unit.strip().lower() in _HIGHER_UNITS or unit.strip().lower().endswith(_RATE_ENDINGS)
    return Metric(name=name, unit=unit, better=Better.HIGHER if higher else Better.LOWER)


_HIGHER_UNITS = frozenset({"flop/s", "flops", "fps", "hz", "ops", "throughput", "speedup", "accuracy", "qps", "score"})
_RATE_ENDINGS = ("/s", "/sec", "/second", "per second", "flops", "ps/w")
