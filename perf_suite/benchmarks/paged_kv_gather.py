"""asv benchmarks of paged_kv_gather."""

from . import operator_benchmark


class PagedKvGather(operator_benchmark.CatalogueBenchmark):
    """All metrics of paged_kv_gather."""

    operator = "paged_kv_gather"
