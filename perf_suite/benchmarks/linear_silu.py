"""asv benchmarks of linear_silu."""

from . import operator_benchmark
from .operator_benchmark import parameters


class LinearSilu(operator_benchmark.OperatorBenchmark):
    """All metrics of linear_silu."""

    operator = "linear_silu"
    params = parameters("linear_silu")
