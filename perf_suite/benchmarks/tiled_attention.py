"""asv benchmarks of tiled_attention."""

from . import operator_benchmark


class TiledAttention(operator_benchmark.CatalogueBenchmark):
    """All metrics of tiled_attention."""

    operator = "tiled_attention"
