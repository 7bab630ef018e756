"""asv benchmarks of int4_decode_attention."""

from . import operator_benchmark
from .operator_benchmark import parameters


class Int4DecodeAttention(operator_benchmark.OperatorBenchmark):
    """All metrics of int4_decode_attention."""

    operator = "int4_decode_attention"
    params = parameters("int4_decode_attention")
