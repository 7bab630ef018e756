"""asv benchmarks of the controls, which no commit changes."""

from warpbench.control import Control

__all__ = ["Control"]
