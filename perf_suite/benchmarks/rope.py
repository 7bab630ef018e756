"""asv benchmarks of rope."""

from . import operator_benchmark
from .operator_benchmark import SETUP_TIMEOUT_S, Cache, measured, parameters


class Rope(operator_benchmark.OperatorBenchmark):
    """Latency, bandwidth and throughput of rope."""

    operator = "rope"
    params = parameters("rope")

    def setup_cache(self) -> Cache:
        """One worker measures every combination."""
        return measured("rope", "benchmarks.rope.Rope")

    setup_cache.timeout = SETUP_TIMEOUT_S  # type: ignore[attr-defined]
