"""asv benchmarks of int8_weight_linear."""

from . import operator_benchmark


class Int8WeightLinear(operator_benchmark.CatalogueBenchmark):
    """All metrics of int8_weight_linear."""

    operator = "int8_weight_linear"
