"""asv benchmarks of int4_linear."""

from . import operator_benchmark
from .operator_benchmark import SETUP_TIMEOUT_S, Cache, measured, parameters


class Int4Linear(operator_benchmark.OperatorBenchmark):
    """Latency, bandwidth and throughput of int4_linear."""

    operator = "int4_linear"
    params = parameters("int4_linear")

    def setup_cache(self) -> Cache:
        """One worker measures every combination."""
        return measured("int4_linear", "benchmarks.int4_linear.Int4Linear")

    setup_cache.timeout = SETUP_TIMEOUT_S  # type: ignore[attr-defined]
