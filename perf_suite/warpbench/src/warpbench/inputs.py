"""The interface of an operator's inputs."""

from typing import Protocol, runtime_checkable

import torch

from .output import Expected, Output


class Inputs(Protocol):
    """What one call of an operator takes."""

    def activations(self) -> tuple[torch.Tensor, ...]:
        """The tensors that differ from call to call; weights and tables may be prepared ahead and stay."""

    def expected(self) -> Expected:
        """The float64 reference on the tensors as they are now."""


@runtime_checkable
class WrittenInputs(Inputs, Protocol):
    """Inputs of an operator that writes into one or several of them, as an append to a cache does.

    Every implementation returns those inputs, and `expected` is all of them: what has to change and what must not.
    Where many calls make one sample the inputs are not drawn anew between them: a second call may not change what the
    first left.
    """

    def written(self) -> Output:
        """Those inputs, each one of the activations."""


@runtime_checkable
class CodedInputs(WrittenInputs, Protocol):
    """Written inputs of which some are quantization codes: the gate judges the decoded values within bounds."""

    def decoded(self, written: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """The values of tensors like the written ones, in float64, one for each part of `expected`."""
