"""asv benchmarks of int4_linear."""

from . import operator_benchmark
from .operator_benchmark import parameters


class Int4Linear(operator_benchmark.OperatorBenchmark):
    """All metrics of int4_linear."""

    operator = "int4_linear"
    params = parameters("int4_linear")
