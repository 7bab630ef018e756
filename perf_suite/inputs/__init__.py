"""Random inputs of each operator, seeded; never zeros, which draw less power and run faster."""

import importlib
from typing import Protocol, runtime_checkable

import torch

from ..output import Expected, Output
from ..workloads.workload import Workload

_TORCH_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class Inputs(Protocol):
    """What one call of an operator takes."""

    def activations(self) -> tuple[torch.Tensor, ...]:
        """The tensors that differ from call to call; weights and tables may be prepared ahead and stay."""

    def expected(self) -> Expected:
        """The float64 reference on the tensors as they are now."""


@runtime_checkable
class WrittenInputs(Inputs, Protocol):
    """What one call of an operator takes that writes into one or several of its inputs, as an append to a cache does.

    Every implementation returns those inputs, and `expected` is all of them: what has to change and what must not.
    Where many calls make one sample they are not drawn anew between them: a second call may not change what the first
    left.
    """

    def written(self) -> Output:
        """Those inputs, each one of the activations."""


@runtime_checkable
class CodedInputs(WrittenInputs, Protocol):
    """Written inputs of which some are codes: the gate judges what they stand for, and `expected` bounds that."""

    def decoded(self, written: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """What tensors like the written ones stand for, in float64, each part of `expected` its own."""


def make_inputs(workload: Workload, generator: torch.Generator) -> Inputs:
    """Inputs of a workload on the generator's device, drawn from it."""
    module = importlib.import_module(f"{__name__}.{workload.operator}")
    inputs: Inputs = module.make(workload, generator, _TORCH_DTYPES[workload.dtype])
    return inputs


def draw_again(inputs: Inputs, workload: Workload, generator: torch.Generator) -> None:
    """Other activations over the same weights, of the distribution that the operator's maker gives them."""
    for tensor, other in zip(inputs.activations(), make_inputs(workload, generator).activations(), strict=True):
        tensor.copy_(other)
