"""asv benchmarks of swiglu."""

from . import operator_benchmark
from .operator_benchmark import parameters


class Swiglu(operator_benchmark.OperatorBenchmark):
    """All metrics of swiglu."""

    operator = "swiglu"
    params = parameters("swiglu")
