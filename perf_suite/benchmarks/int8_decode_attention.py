"""asv benchmarks of int8_decode_attention."""

from . import operator_benchmark


class Int8DecodeAttention(operator_benchmark.CatalogueBenchmark):
    """All metrics of int8_decode_attention."""

    operator = "int8_decode_attention"
