"""asv benchmarks of naive_attention."""

from . import operator_benchmark
from .operator_benchmark import parameters


class NaiveAttention(operator_benchmark.OperatorBenchmark):
    """All metrics of naive_attention."""

    operator = "naive_attention"
    params = parameters("naive_attention")
