"""The inputs that a KernelBenchmark's `inputs` returns, as the engine takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from .output import Expected, Output, parts

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
