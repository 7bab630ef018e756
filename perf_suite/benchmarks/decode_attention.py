"""asv benchmarks of decode_attention."""

from . import operator_benchmark
from .operator_benchmark import parameters


class DecodeAttention(operator_benchmark.OperatorBenchmark):
    """All metrics of decode_attention."""

    operator = "decode_attention"
    params = parameters("decode_attention")
