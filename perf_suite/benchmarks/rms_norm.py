"""asv benchmarks of rms_norm."""

from . import operator_benchmark


class RmsNorm(operator_benchmark.CatalogueBenchmark):
    """All metrics of rms_norm."""

    operator = "rms_norm"
