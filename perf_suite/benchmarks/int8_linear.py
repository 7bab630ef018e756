"""asv benchmarks of int8_linear."""

from . import operator_benchmark


class Int8Linear(operator_benchmark.CatalogueBenchmark):
    """All metrics of int8_linear."""

    operator = "int8_linear"
