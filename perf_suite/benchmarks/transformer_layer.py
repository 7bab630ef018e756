"""asv benchmarks of transformer_layer."""

from . import operator_benchmark
from .operator_benchmark import parameters


class TransformerLayer(operator_benchmark.OperatorBenchmark):
    """All metrics of transformer_layer."""

    operator = "transformer_layer"
    params = parameters("transformer_layer")
