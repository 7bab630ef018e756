"""asv benchmarks of reduce_sum."""

from . import operator_benchmark


class ReduceSum(operator_benchmark.CatalogueBenchmark):
    """All metrics of reduce_sum."""

    operator = "reduce_sum"
