"""asv benchmarks of kv_append."""

from . import operator_benchmark
from .operator_benchmark import parameters


class KvAppend(operator_benchmark.OperatorBenchmark):
    """All metrics of kv_append."""

    operator = "kv_append"
    params = parameters("kv_append")
