"""asv benchmarks of flash_attention_backward."""

from . import operator_benchmark
from .operator_benchmark import parameters


class FlashAttentionBackward(operator_benchmark.OperatorBenchmark):
    """All metrics of flash_attention_backward."""

    operator = "flash_attention_backward"
    params = parameters("flash_attention_backward")
