"""Measure GPU kernels commit by commit: correctness before speed, baselines and controls in the same run.

    from warpbench import Case, KernelBenchmark, baseline, kernel, measure

README.md leads from a kernel to its first recorded run. Importing this package loads neither torch nor asv.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .adopted import AdoptedBenchmark, AdoptedCase
from .benchmark import KernelBenchmark
from .case import Case
from .implementation import baseline, kernel
from .prepared import Prepared, UnavailableError

if TYPE_CHECKING:
    from .notebook import measure

__all__ = [
    "AdoptedBenchmark",
    "AdoptedCase",
    "Case",
    "KernelBenchmark",
    "Prepared",
    "UnavailableError",
    "baseline",
    "kernel",
    "measure",
]


def __getattr__(name: str) -> Any:
    """`warpbench.measure`, which imports torch."""
    if name == "measure":
        from .notebook import measure

        return measure
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
