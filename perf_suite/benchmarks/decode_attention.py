"""asv benchmarks of decode_attention."""

from . import operator_benchmark


class DecodeAttention(operator_benchmark.CatalogueBenchmark):
    """All metrics of decode_attention."""

    operator = "decode_attention"
