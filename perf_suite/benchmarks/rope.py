"""asv benchmarks of rope."""

from . import operator_benchmark
from .operator_benchmark import parameters


class Rope(operator_benchmark.OperatorBenchmark):
    """All metrics of rope."""

    operator = "rope"
    params = parameters("rope")
