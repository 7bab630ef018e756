"""asv benchmarks of paged_kv_append."""

from . import operator_benchmark
from .operator_benchmark import parameters


class PagedKvAppend(operator_benchmark.OperatorBenchmark):
    """All metrics of paged_kv_append."""

    operator = "paged_kv_append"
    params = parameters("paged_kv_append")
