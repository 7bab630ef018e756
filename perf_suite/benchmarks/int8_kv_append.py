"""asv benchmarks of int8_kv_append."""

from . import operator_benchmark


class Int8KvAppend(operator_benchmark.CatalogueBenchmark):
    """All metrics of int8_kv_append."""

    operator = "int8_kv_append"
