"""asv benchmarks of flash_attention."""

from . import operator_benchmark
from .operator_benchmark import SETUP_TIMEOUT_S, Cache, measured, parameters


class FlashAttention(operator_benchmark.OperatorBenchmark):
    """Latency, bandwidth and throughput of flash_attention."""

    operator = "flash_attention"
    params = parameters("flash_attention")

    def setup_cache(self) -> Cache:
        """One worker measures every combination."""
        return measured("flash_attention", "benchmarks.flash_attention.FlashAttention")

    setup_cache.timeout = SETUP_TIMEOUT_S  # type: ignore[attr-defined]
