"""asv benchmarks of paged_decode_attention."""

from . import operator_benchmark


class PagedDecodeAttention(operator_benchmark.CatalogueBenchmark):
    """All metrics of paged_decode_attention."""

    operator = "paged_decode_attention"
