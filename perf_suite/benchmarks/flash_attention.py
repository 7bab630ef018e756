"""asv benchmarks of flash_attention."""

from . import operator_benchmark
from .operator_benchmark import parameters


class FlashAttention(operator_benchmark.OperatorBenchmark):
    """All metrics of flash_attention."""

    operator = "flash_attention"
    params = parameters("flash_attention")
