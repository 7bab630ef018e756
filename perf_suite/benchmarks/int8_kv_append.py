"""asv benchmarks of int8_kv_append."""

from . import operator_benchmark
from .operator_benchmark import parameters


class Int8KvAppend(operator_benchmark.OperatorBenchmark):
    """All metrics of int8_kv_append."""

    operator = "int8_kv_append"
    params = parameters("int8_kv_append")
