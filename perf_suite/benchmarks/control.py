"""asv benchmarks of the controls, which no commit changes."""

from . import operator_benchmark
from .operator_benchmark import parameters


class Control(operator_benchmark.OperatorBenchmark):
    """All metrics of the controls, which no commit changes."""

    operator = "control"
    params = parameters("control")
