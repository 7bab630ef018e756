"""asv benchmarks of layer_norm."""

from . import operator_benchmark
from .operator_benchmark import parameters


class LayerNorm(operator_benchmark.OperatorBenchmark):
    """All metrics of layer_norm."""

    operator = "layer_norm"
    params = parameters("layer_norm")
