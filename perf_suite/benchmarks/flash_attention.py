"""asv benchmarks of flash_attention."""

from . import operator_benchmark


class FlashAttention(operator_benchmark.CatalogueBenchmark):
    """All metrics of flash_attention."""

    operator = "flash_attention"
