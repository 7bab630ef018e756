"""An operator's inputs: their interface, and what a KernelBenchmark's `inputs` returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import torch

from .output import Expected, Output, parts


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


Reference = Callable[..., Expected]


class DeclaredInputs:
    """Values by name, of which tensors that are not constants are activations."""

    def __init__(
        self, values: Mapping[str, Any], constants: frozenset[str], reference: Reference, *, in_float64: bool
    ) -> None:
        self.values, self._constants = dict(values), constants
        self._reference, self._in_float64 = reference, in_float64

    def __getattr__(self, name: str) -> Any:
        """A value by its name."""
        values = self.__dict__.get("values", {})  # not there yet while a copy is being made
        if name in values:
            return values[name]
        raise AttributeError(f"no input {name!r}; there are {', '.join(values)}")

    def activations(self) -> tuple[torch.Tensor, ...]:
        """The tensors that are drawn anew for each call."""
        return tuple(
            value
            for name, value in self.values.items()
            if isinstance(value, torch.Tensor) and name not in self._constants
        )

    def expected(self) -> Expected:
        """The reference of the values as they are now."""
        return self._reference(**{name: self._widened(value) for name, value in self.values.items()})

    def _widened(self, value: Any) -> Any:
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.double() if is_float and self._in_float64 else value


class DeclaredWrittenInputs(DeclaredInputs):
    """Inputs of which the operator writes to some."""

    def __init__(self, *arguments: Any, writes: tuple[str, ...], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._writes = writes

    def written(self) -> Output:
        """The tensors that the operator writes to."""
        tensors = tuple(self.values[name] for name in self._writes)
        return tensors[0] if len(tensors) == 1 else tensors


class DeclaredCodedInputs(DeclaredWrittenInputs):
    """Written inputs of which some are quantization codes."""

    def __init__(self, *arguments: Any, decode: Callable[..., Expected], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._decode = decode

    def decoded(self, written: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """The values that the written tensors stand for."""
        return tuple(parts(self._decode(*written)))  # type: ignore[arg-type]
