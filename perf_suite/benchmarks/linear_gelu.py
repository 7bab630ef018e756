"""asv benchmarks of linear_gelu."""

from . import operator_benchmark
from .operator_benchmark import parameters


class LinearGelu(operator_benchmark.OperatorBenchmark):
    """All metrics of linear_gelu."""

    operator = "linear_gelu"
    params = parameters("linear_gelu")
