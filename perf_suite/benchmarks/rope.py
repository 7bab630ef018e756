"""asv benchmarks of rope."""

from . import operator_benchmark


class Rope(operator_benchmark.CatalogueBenchmark):
    """All metrics of rope."""

    operator = "rope"
