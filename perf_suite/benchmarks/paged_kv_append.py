"""asv benchmarks of paged_kv_append."""

from . import operator_benchmark


class PagedKvAppend(operator_benchmark.CatalogueBenchmark):
    """All metrics of paged_kv_append."""

    operator = "paged_kv_append"
