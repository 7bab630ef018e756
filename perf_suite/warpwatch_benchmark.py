"""What the benchmarks of warpwatch's own operators have in common. No torch here."""

from abc import ABC

from warpbench import KernelBenchmark


class WarpwatchBenchmark(KernelBenchmark, ABC):
    """An operator of warpwatch.kernels."""

    @classmethod
    def code_sha256(cls, implementation: str, compute_capability: str | None) -> str | None:
        """One hash of machine code, host code and Python of an implementation that is ours."""
        from .compiled.code_digest import code_digest

        return code_digest(implementation, cls.operator, compute_capability)
