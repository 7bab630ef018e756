"""asv benchmarks of ffn_gelu."""

from . import operator_benchmark
from .operator_benchmark import parameters


class FfnGelu(operator_benchmark.OperatorBenchmark):
    """All metrics of ffn_gelu."""

    operator = "ffn_gelu"
    params = parameters("ffn_gelu")
