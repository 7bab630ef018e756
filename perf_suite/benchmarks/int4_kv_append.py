"""asv benchmarks of int4_kv_append."""

from . import operator_benchmark
from .operator_benchmark import parameters


class Int4KvAppend(operator_benchmark.OperatorBenchmark):
    """All metrics of int4_kv_append."""

    operator = "int4_kv_append"
    params = parameters("int4_kv_append")
