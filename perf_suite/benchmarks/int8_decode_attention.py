"""asv benchmarks of int8_decode_attention."""

from . import operator_benchmark
from .operator_benchmark import parameters


class Int8DecodeAttention(operator_benchmark.OperatorBenchmark):
    """All metrics of int8_decode_attention."""

    operator = "int8_decode_attention"
    params = parameters("int8_decode_attention")
