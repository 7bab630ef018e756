"""asv benchmarks of int8_linear."""

from . import operator_benchmark
from .operator_benchmark import parameters


class Int8Linear(operator_benchmark.OperatorBenchmark):
    """All metrics of int8_linear."""

    operator = "int8_linear"
    params = parameters("int8_linear")
