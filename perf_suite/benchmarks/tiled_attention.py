"""asv benchmarks of tiled_attention."""

from . import operator_benchmark
from .operator_benchmark import parameters


class TiledAttention(operator_benchmark.OperatorBenchmark):
    """All metrics of tiled_attention."""

    operator = "tiled_attention"
    params = parameters("tiled_attention")
