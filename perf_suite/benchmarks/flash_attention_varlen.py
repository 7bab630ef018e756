"""asv benchmarks of flash_attention_varlen."""

from . import operator_benchmark
from .operator_benchmark import parameters


class FlashAttentionVarlen(operator_benchmark.OperatorBenchmark):
    """All metrics of flash_attention_varlen."""

    operator = "flash_attention_varlen"
    params = parameters("flash_attention_varlen")
