"""Measure GPU kernels commit by commit: correctness before speed, baselines and controls in the same run.

    from warpbench import Case, KernelBenchmark, baseline, kernel

README.md leads from a kernel to its first recorded run. Importing this package loads neither torch nor asv.
"""

from .benchmark import KernelBenchmark
from .case import Case
from .implementation import baseline, kernel
from .prepared import Prepared, UnavailableError

__all__ = ["Case", "KernelBenchmark", "Prepared", "UnavailableError", "baseline", "kernel"]
