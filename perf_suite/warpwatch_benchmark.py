"""What the benchmarks of warpwatch's own operators have in common. No torch here."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from warpbench import KernelBenchmark, baseline, kernel
from warpbench.lazy import torch
from warpbench.torch_compile import compiled

from .warpwatch_operators import triton_operator, warpwatch_operator


class WarpwatchBenchmark(KernelBenchmark, ABC):
    """An operator of warpwatch.kernels."""

    @classmethod
    def code_sha256(cls, implementation: str, compute_capability: str | None) -> str | None:
        """One hash of machine code, host code and Python of an implementation that is ours."""
        from .compiled.code_digest import code_digest

        return code_digest(implementation, cls.operator, compute_capability)


class OperatorBenchmark(WarpwatchBenchmark, ABC):
    """An operator and its Triton twin that take the inputs in the order in which the benchmark names them."""

    @kernel(binds=True)
    def warpwatch(self, **inputs: Any) -> Callable[[], Any]:
        """The CUDA C++ or CPU kernel of the commit."""
        return self.call_of(warpwatch_operator(self.operator), **inputs)

    @kernel(binds=True, devices=["cuda"])
    def triton(self, **inputs: Any) -> Callable[[], Any]:
        """Its Triton twin."""
        return self.call_of(triton_operator(self.operator), **inputs)

    # mypy: with *unnamed and **inputs both, a subclass may name its inputs.
    def call_of(self, function: Callable[..., Any], /, *unnamed: Any, **inputs: Any) -> Callable[[], Any]:
        """What is timed. By position, which takes the host less time than by name."""
        arguments = (*unnamed, *inputs.values())
        return lambda: function(*arguments)


class FormulaBenchmark(OperatorBenchmark, ABC):
    """An operator that PyTorch has as a formula: a baseline as it is, and another through torch.compile."""

    @staticmethod
    @abstractmethod
    def formula(*unnamed: Any, **inputs: Any) -> Any:
        """The operator in plain PyTorch; it is called as the operator is."""

    @baseline(binds=True)
    def eager(self, **inputs: Any) -> Callable[[], Any]:
        """The formula in plain PyTorch."""
        return self.call_of(self.formula, **inputs)

    @baseline(binds=True, devices=["cuda"])
    def torch_compile(self, **inputs: Any) -> Callable[[], Any]:
        """The formula through torch.compile."""
        tensors = [value for value in inputs.values() if isinstance(value, torch.Tensor)]
        return self.call_of(compiled(self.formula, *tensors), **inputs)
