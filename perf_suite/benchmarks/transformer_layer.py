"""asv benchmarks of transformer_layer."""

from . import operator_benchmark


class TransformerLayer(operator_benchmark.CatalogueBenchmark):
    """All metrics of transformer_layer."""

    operator = "transformer_layer"
