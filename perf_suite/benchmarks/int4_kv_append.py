"""asv benchmarks of int4_kv_append."""

from . import operator_benchmark


class Int4KvAppend(operator_benchmark.CatalogueBenchmark):
    """All metrics of int4_kv_append."""

    operator = "int4_kv_append"
