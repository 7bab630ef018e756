"""asv benchmarks of rope_paged_kv_append."""

from . import operator_benchmark


class RopePagedKvAppend(operator_benchmark.CatalogueBenchmark):
    """All metrics of rope_paged_kv_append."""

    operator = "rope_paged_kv_append"
