"""asv benchmarks of int8_weight_linear."""

from . import operator_benchmark
from .operator_benchmark import parameters


class Int8WeightLinear(operator_benchmark.OperatorBenchmark):
    """All metrics of int8_weight_linear."""

    operator = "int8_weight_linear"
    params = parameters("int8_weight_linear")
