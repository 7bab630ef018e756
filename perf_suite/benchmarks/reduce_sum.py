"""asv benchmarks of reduce_sum."""

from . import operator_benchmark
from .operator_benchmark import parameters


class ReduceSum(operator_benchmark.OperatorBenchmark):
    """All metrics of reduce_sum."""

    operator = "reduce_sum"
    params = parameters("reduce_sum")
