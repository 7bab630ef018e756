"""asv benchmarks of paged_decode_attention."""

from . import operator_benchmark
from .operator_benchmark import parameters


class PagedDecodeAttention(operator_benchmark.OperatorBenchmark):
    """All metrics of paged_decode_attention."""

    operator = "paged_decode_attention"
    params = parameters("paged_decode_attention")
