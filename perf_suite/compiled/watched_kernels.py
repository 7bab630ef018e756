"""What is watched of each operator's compiled code, and for which architectures. No torch here."""

from dataclasses import dataclass
from functools import cache

from warpbench.catalogue import benchmark_classes

ARCHITECTURES = ("sm_75", "sm_86", "sm_89", "sm_90a", "sm_120")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One operator's. asv wants these names before a commit is built; tests hold them against the built library."""

    kernels: tuple[str, ...]  # `__global__` functions
    twins: tuple[str, ...]  # Triton functions that its twin launches
    sources: tuple[str, ...]  # CUDA files, below kernels/csrc


@cache
def watched_operators() -> dict[str, Watched]:
    """`watched` of the benchmark classes, by operator. A function, since the benchmarks import this module."""
    from .. import benchmarks

    classes = benchmark_classes(benchmarks).values()
    return {kind.operator: kind.watched for kind in classes if getattr(kind, "watched", None)}  # type: ignore[attr-defined]


@cache
def operator_of(kernel: str) -> str | None:
    """The operator a kernel or a Triton function belongs to, or None if it is not watched."""
    found = (name for name, watched in watched_operators().items() if kernel in watched.kernels + watched.twins)
    return next(found, None)
