"""asv benchmarks of rms_norm."""

from . import operator_benchmark
from .operator_benchmark import parameters


class RmsNorm(operator_benchmark.OperatorBenchmark):
    """All metrics of rms_norm."""

    operator = "rms_norm"
    params = parameters("rms_norm")
