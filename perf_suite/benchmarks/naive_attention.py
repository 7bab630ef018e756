"""asv benchmarks of naive_attention."""

from . import operator_benchmark


class NaiveAttention(operator_benchmark.CatalogueBenchmark):
    """All metrics of naive_attention."""

    operator = "naive_attention"
