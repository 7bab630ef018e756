"""asv benchmarks of linear_silu."""

from . import operator_benchmark


class LinearSilu(operator_benchmark.CatalogueBenchmark):
    """All metrics of linear_silu."""

    operator = "linear_silu"
