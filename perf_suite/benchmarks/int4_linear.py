"""asv benchmarks of int4_linear."""

from . import operator_benchmark


class Int4Linear(operator_benchmark.CatalogueBenchmark):
    """All metrics of int4_linear."""

    operator = "int4_linear"
