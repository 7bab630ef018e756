"""asv benchmarks of linear_gelu."""

from . import operator_benchmark


class LinearGelu(operator_benchmark.CatalogueBenchmark):
    """All metrics of linear_gelu."""

    operator = "linear_gelu"
