"""asv benchmarks of layer_norm."""

from . import operator_benchmark


class LayerNorm(operator_benchmark.CatalogueBenchmark):
    """All metrics of layer_norm."""

    operator = "layer_norm"
