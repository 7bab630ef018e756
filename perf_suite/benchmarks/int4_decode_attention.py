"""asv benchmarks of int4_decode_attention."""

from . import operator_benchmark


class Int4DecodeAttention(operator_benchmark.CatalogueBenchmark):
    """All metrics of int4_decode_attention."""

    operator = "int4_decode_attention"
