"""asv benchmarks of swiglu."""

from . import operator_benchmark


class Swiglu(operator_benchmark.CatalogueBenchmark):
    """All metrics of swiglu."""

    operator = "swiglu"
