"""asv benchmarks of ffn_gelu."""

from . import operator_benchmark


class FfnGelu(operator_benchmark.CatalogueBenchmark):
    """All metrics of ffn_gelu."""

    operator = "ffn_gelu"
