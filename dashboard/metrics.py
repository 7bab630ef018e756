"""What a metric's unit is, which direction is better, and which metrics are judged: the one home of these facts."""

from collections.abc import Iterable
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
    plain = unit.strip().lower()
    higher = plain in _HIGHER_UNITS or plain.endswith(_RATE_ENDINGS)
    return Metric(name=name, unit=unit, better=Better.HIGHER if higher else Better.LOWER)


def metric_name(benchmark: str, kind: str | None) -> str:
    """What an asv benchmark measures, from its method's prefix: `Rope.track_latency` measures "latency"."""
    method = benchmark.rpartition(".")[2]
    if kind in _NAME_OF_KIND:
        return _NAME_OF_KIND[kind]
    prefix, _, rest = method.partition("_")
    return rest if prefix == "track" and rest else _NAME_OF_PREFIX.get(prefix, method)


def unit_of(benchmark: str, declared: str | None, parameter_values: Iterable[str]) -> str:
    """The unit of one parameter combination of a benchmark.

    `declared` is what asv lists, None for a benchmark it lists no longer; then the method's prefix tells. asv knows
    one unit a benchmark; suites that track several quantities behind a parameter leave it at its default "unit".
    Then a parameter's words may still tell: `device_memory_allocated` are bytes. Otherwise it stays "unit".
    """
    if declared is None:
        declared = _UNIT_OF_PREFIX.get(benchmark.rpartition(".")[2].partition("_")[0])
    if declared and declared != "unit":
        return declared
    for value in parameter_values:
        words = value.strip("'\"").lower().replace(".", "_").split("_")
        for word in words:
            if word in _UNIT_OF_WORD:
                return _UNIT_OF_WORD[word]
    return declared or "unit"


def is_time(unit: str) -> bool:
    """Whether a unit is one of time."""
    return unit.strip().lower() in _TIME_UNITS


def is_primary(unit: str) -> bool:
    """Whether series of this unit are judged by default: times, and quantities that name no unit.

    Bandwidth and FLOP/s restate the latency of the same measurement, so judging them too would count it thrice.
    """
    return is_time(unit) or unit.strip().lower() in {"", "unit"}


_TIME_UNITS = frozenset(
    {"seconds", "second", "s", "ms", "us", "µs", "ns", "milliseconds", "microseconds", "nanoseconds"}
)
_HIGHER_UNITS = frozenset({"flops", "fps", "hz", "ops", "throughput", "speedup", "accuracy", "qps"})
_RATE_ENDINGS = ("/s", "/sec", "/second", "per second", "flops")
_NAME_OF_KIND = {"time": "time", "timeraw": "time", "memory": "memory", "peakmemory": "peak memory"}
_NAME_OF_PREFIX = {"time": "time", "timeraw": "time", "mem": "memory", "peakmem": "peak memory"}
_UNIT_OF_PREFIX = {"time": "seconds", "timeraw": "seconds", "mem": "bytes", "peakmem": "bytes"}
_UNIT_OF_WORD = {
    "memory": "bytes", "bytes": "bytes", "duration": "seconds", "seconds": "seconds",
    "niter": "count", "iterations": "count", "count": "count",
}  # fmt: skip
