"""asv benchmarks of rope_paged_kv_append."""

from . import operator_benchmark
from .operator_benchmark import parameters


class RopePagedKvAppend(operator_benchmark.OperatorBenchmark):
    """All metrics of rope_paged_kv_append."""

    operator = "rope_paged_kv_append"
    params = parameters("rope_paged_kv_append")
