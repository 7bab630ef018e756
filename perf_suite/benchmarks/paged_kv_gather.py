"""asv benchmarks of paged_kv_gather."""

from . import operator_benchmark
from .operator_benchmark import parameters


class PagedKvGather(operator_benchmark.OperatorBenchmark):
    """All metrics of paged_kv_gather."""

    operator = "paged_kv_gather"
    params = parameters("paged_kv_gather")
