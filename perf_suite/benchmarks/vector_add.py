"""asv benchmarks of vector_add."""

from . import operator_benchmark
from .operator_benchmark import parameters


class VectorAdd(operator_benchmark.OperatorBenchmark):
    """All metrics of vector_add."""

    operator = "vector_add"
    params = parameters("vector_add")
