"""The measuring instrument. asv carries this package over all commits; it is never installed."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpbench.one_off.kernel_benchmark import KernelBenchmark

__all__ = ["KernelBenchmark"]


def __getattr__(name: str) -> Any:
    """`from perf_suite import KernelBenchmark`, loaded only for those who ask: asv imports this package often."""
    if name == "KernelBenchmark":
        from warpbench.one_off.kernel_benchmark import KernelBenchmark

        return KernelBenchmark
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
