"""Metrics: unit, direction, role."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache


class Better(Enum):
    """Direction of an improvement."""

    LOWER = "lower"
    HIGHER = "higher"


class MetricRole(Enum):
    """Consequence of a change of a metric."""

    JUDGED = "judged"  # a verdict, a regression, an alert
    RESTATED = "restated"  # derived from the latency of the same measurement, so that judging it would count it twice
    EXPLAINS = "explains"  # explains changes of others


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One quantity of a benchmark, in the unit as recorded.

    An exact quantity has no noise: registers, launches, bytes of an allocator.
    """

    name: str
    unit: str
    better: Better
    role: MetricRole
    is_exact: bool

    @property
    def label(self) -> str:
        """The name in words; of asv's `track_metric`, the kind of its unit."""
        if self.name == "metric":
            return "time" if self.is_time else "value"
        return _LABELS.get(self.name) or self.name.replace("_", " ")

    @property
    def is_judged(self) -> bool:
        """Whether its changes are verdicts by default."""
        return self.role is MetricRole.JUDGED

    @property
    def is_time(self) -> bool:
        """Whether it is recorded in a unit of time."""
        return _plain(self.unit) in _TIME_UNITS

    @property
    def is_latency(self) -> bool:
        """Whether speed of light, bandwidth and throughput are derived from it."""
        return self.name == "latency" and self.is_time

    @property
    def noise_family(self) -> str | None:
        """Family of times with similar noise on a machine; None for other quantities.

        CPU and GPU, warm and cold L2, consecutive and single calls have different noise.
        """
        if not self.is_time:
            return None
        return self.name if self.name in _OWN_FAMILIES else "latency"

    @property
    def follows_machine(self) -> bool:
        """Whether the machine's drift, as its controls show it, affects this metric."""
        return self.noise_family in {"latency", "warm_latency", "steady_latency"}

    def is_worse(self, change: float) -> bool:
        """Whether a signed relative change (0.04 is 4 % more) is for the worse."""
        return change > 0 if self.better is Better.LOWER else change < 0


@lru_cache(maxsize=1000)  # called for every series
def metric(name: str, unit: str) -> Metric:
    """The metric of that name and unit; for metrics that the suite does not define, by the unit.

    Rates are better high, the rest low. Times and quantities without a unit are judged.
    """
    plain = _plain(unit)
    if (name, plain) in _OWN:
        role, better, is_exact = _OWN[name, plain]
        return Metric(name=name, unit=unit, better=better, role=role, is_exact=is_exact)
    is_rate = plain in _HIGHER_UNITS or plain.endswith(_RATE_ENDINGS)
    role = (
        MetricRole.JUDGED
        if plain in _TIME_UNITS | {"", "unit"}
        else MetricRole.RESTATED
        if is_rate
        else MetricRole.EXPLAINS
    )
    return Metric(
        name=name,
        unit=unit,
        better=Better.HIGHER if is_rate else Better.LOWER,
        role=role,
        is_exact=plain in _EXACT_UNITS,
    )


def metric_name(benchmark: str, kind: str | None) -> str:
    """Name of an asv benchmark's metric, from its method's prefix: "latency" of `Rope.track_latency`."""
    method = benchmark.rpartition(".")[2]
    if kind in _NAME_OF_KIND:
        return _NAME_OF_KIND[kind]
    prefix, _, rest = method.partition("_")
    return rest if prefix == "track" and rest else _NAME_OF_PREFIX.get(prefix, method)


def unit_of(benchmark: str, declared: str | None, parameter_values: Iterable[str]) -> str:
    """The unit of one parameter combination of a benchmark.

    `declared` is asv's, None for an unlisted benchmark; then the method's prefix decides. asv has one unit a benchmark;
    suites with several quantities behind a parameter leave the default "unit". Then the parameter's words decide:
    `device_memory_allocated` are bytes. Otherwise "unit".
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


@lru_cache(maxsize=256)  # called several times for every series
def _plain(unit: str) -> str:
    return unit.strip().lower()


# The metrics of perf_suite and the importers by name and unit: role, direction, exact or measured. Energy is not
# judged: it includes the effect of the latency, and the rest follows the GPU's temperature.
_OWN: dict[tuple[str, str], tuple[MetricRole, Better, bool]] = {
    ("latency", "seconds"): (MetricRole.JUDGED, Better.LOWER, False),
    ("warm_latency", "seconds"): (MetricRole.JUDGED, Better.LOWER, False),
    ("steady_latency", "seconds"): (MetricRole.JUDGED, Better.LOWER, False),
    ("host_overhead", "seconds"): (MetricRole.JUDGED, Better.LOWER, False),
    ("peak_memory", "bytes"): (MetricRole.JUDGED, Better.LOWER, True),
    ("kernels_launched", "launches"): (MetricRole.JUDGED, Better.LOWER, True),
    ("cpu_time", "seconds"): (MetricRole.RESTATED, Better.LOWER, False),  # of NVBench and Google Benchmark
    ("median_latency", "seconds"): (MetricRole.RESTATED, Better.LOWER, False),  # NVBench's, of the same launches
    ("cycles", "cycles"): (MetricRole.RESTATED, Better.LOWER, False),
    ("bandwidth", "gb/s"): (MetricRole.RESTATED, Better.HIGHER, False),
    ("tflops", "tflop/s"): (MetricRole.RESTATED, Better.HIGHER, False),
    ("sol_peak", "share of peak"): (MetricRole.RESTATED, Better.HIGHER, False),
    ("sol_ceiling", "share of ceiling"): (MetricRole.RESTATED, Better.HIGHER, False),
    ("energy", "joules"): (MetricRole.EXPLAINS, Better.LOWER, False),
    ("compile_time", "seconds"): (MetricRole.EXPLAINS, Better.LOWER, False),
    ("build_time", "seconds"): (MetricRole.EXPLAINS, Better.LOWER, False),
    ("library_size", "bytes"): (MetricRole.EXPLAINS, Better.LOWER, True),
    ("occupancy", "share"): (MetricRole.EXPLAINS, Better.HIGHER, True),
    ("stack", "bytes"): (MetricRole.EXPLAINS, Better.LOWER, True),
    ("shared_memory", "bytes"): (MetricRole.EXPLAINS, Better.LOWER, True),
    ("dynamic_shared_memory", "bytes"): (MetricRole.EXPLAINS, Better.LOWER, True),
    ("code_size", "bytes"): (MetricRole.EXPLAINS, Better.LOWER, True),
}
_LABELS = {
    "sol_peak": "speed of light, of the datasheet’s peak",
    "sol_ceiling": "speed of light, of the measured ceiling",
    "tflops": "throughput",
    "cycles": "SM cycles",
    "build_time": "CPU time of compiling",
}
_OWN_FAMILIES = frozenset({"warm_latency", "steady_latency", "host_overhead", "compile_time", "build_time"})
_EXACT_UNITS = frozenset({"registers", "instructions", "launches", "barriers"})
_TIME_UNITS = frozenset(
    {"seconds", "second", "s", "ms", "us", "µs", "ns", "milliseconds", "microseconds", "nanoseconds"}
)
_HIGHER_UNITS = frozenset(
    {"flops", "fps", "hz", "ops", "throughput", "speedup", "accuracy", "qps", "share of peak", "share of ceiling"}
)
_RATE_ENDINGS = ("/s", "/sec", "/second", "per second", "flops")
_NAME_OF_KIND = {"time": "time", "timeraw": "time", "memory": "memory", "peakmemory": "peak memory"}
_NAME_OF_PREFIX = {"time": "time", "timeraw": "time", "mem": "memory", "peakmem": "peak memory"}
_UNIT_OF_PREFIX = {"time": "seconds", "timeraw": "seconds", "mem": "bytes", "peakmem": "bytes"}
_UNIT_OF_WORD = {
    "memory": "bytes",
    "bytes": "bytes",
    "duration": "seconds",
    "seconds": "seconds",
    "niter": "count",
    "iterations": "count",
    "count": "count",
}
