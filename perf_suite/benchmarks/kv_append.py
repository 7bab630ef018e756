"""asv benchmarks of kv_append."""

from . import operator_benchmark


class KvAppend(operator_benchmark.CatalogueBenchmark):
    """All metrics of kv_append."""

    operator = "kv_append"
