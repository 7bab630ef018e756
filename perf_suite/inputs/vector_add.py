"""Inputs of vector_add."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.vector_add import vector_add as reference


@dataclass(slots=True, kw_only=True)
class VectorAddInputs:
    """a, b (elements) in the workload's dtype."""

    a: torch.Tensor
    b: torch.Tensor

    def activations(self) -> tuple[torch.Tensor, ...]:
        """Both."""
        return (self.a, self.b)

    def expected(self) -> torch.Tensor:
        """The reference of this call."""
        return reference(self.a, self.b)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> VectorAddInputs:
    """Normal vectors."""

    def normal() -> torch.Tensor:
        elements = workload.parameters["elements"]
        return torch.randn(elements, generator=generator, device=generator.device, dtype=dtype)

    return VectorAddInputs(a=normal(), b=normal())
