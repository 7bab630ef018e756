"""Quantized formats of a linear layer's weight: one class per format, around its operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch

from ..operators.int4_linear import GROUP_SIZES, int4_linear, quantize_int4, quantize_int4_zero_point, unpack_int4
from ..operators.int8_linear import ROW_BYTES, int8_linear, quantize_int8_weight
from ..operators.int8_weight_linear import int8_weight_linear

Tensors = Mapping[str, torch.Tensor]
_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


class WeightFormat(Protocol):
    """The tensors that represent a weight (out_features, in_features): quantization, dequantization and product."""

    @property
    def always_float32(self) -> tuple[str, ...]:
        """Names of the tensors that a cast of the model leaves unchanged."""

    def empty(
        self, out_features: int, in_features: int, dtype: torch.dtype, device: torch.device | str | None
    ) -> dict[str, torch.Tensor]:
        """Uninitialised tensors by name, for x in `dtype`. Raises ValueError for unsupported features or dtype."""

    def quantize(self, weight: torch.Tensor) -> dict[str, torch.Tensor]:
        """The tensors of a weight in x's dtype, on its device."""

    def dequantize(self, tensors: Tensors, in_features: int) -> torch.Tensor:
        """The weight that the tensors represent, in the dtype of the scales."""

    def linear(self, x: torch.Tensor, tensors: Tensors, bias: torch.Tensor | None) -> torch.Tensor:
        """x (..., in_features) times the transpose of the dequantized weight, plus the bias."""


@dataclass(frozen=True, slots=True)
class Int4Groups:
    """4-bit values, two per byte, with one scale per `group_size` consecutive inputs (W4A16).

    With `zero_points` each group has its own zero among the sixteen values; without, it is 8.
    """

    group_size: int
    zero_points: bool = False
    always_float32: tuple[str, ...] = field(default=(), repr=False)

    def empty(
        self, out_features: int, in_features: int, dtype: torch.dtype, device: torch.device | str | None
    ) -> dict[str, torch.Tensor]:
        if self.group_size not in GROUP_SIZES:
            raise ValueError(f"QuantizedLinear: group_size must be 64 or 128, got {self.group_size}")
        _check_dtype(dtype)
        if in_features < 1 or in_features % self.group_size:
            raise ValueError(
                f"QuantizedLinear: in_features must be a positive multiple of group_size {self.group_size}, "
                f"got {in_features}"
            )
        groups = in_features // self.group_size
        tensors = {
            "packed_weight": torch.empty(
                (out_features + 15) // 16, in_features // 64, 512, dtype=torch.uint8, device=device
            ),
            "scales": torch.empty(out_features, groups, dtype=dtype, device=device),
        }
        if self.zero_points:
            tensors["zero_points"] = torch.empty(out_features, groups, dtype=torch.uint8, device=device)
        return tensors

    def quantize(self, weight: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.zero_points:
            packed_weight, scales, zero_points = quantize_int4_zero_point(weight, self.group_size)
            return {"packed_weight": packed_weight, "scales": scales, "zero_points": zero_points}
        packed_weight, scales = quantize_int4(weight, self.group_size)
        return {"packed_weight": packed_weight, "scales": scales}

    def dequantize(self, tensors: Tensors, in_features: int) -> torch.Tensor:
        scales = tensors["scales"]
        values = unpack_int4(tensors["packed_weight"], scales.shape[0]).view(*scales.shape, self.group_size)
        zeros = tensors["zero_points"].unsqueeze(-1) if self.zero_points else 8
        return ((values.float() - zeros) * scales.float().unsqueeze(-1)).to(scales.dtype).flatten(1)

    def linear(self, x: torch.Tensor, tensors: Tensors, bias: torch.Tensor | None) -> torch.Tensor:
        out = int4_linear(
            x, tensors["packed_weight"], tensors["scales"], tensors.get("zero_points"), group_size=self.group_size
        )
        return out if bias is None else out + bias


@dataclass(frozen=True, slots=True)
class Int8Channels:
    """Symmetric 8-bit values with one scale per output.

    x is quantized per token (W8A8), or not quantized with `weight_only` (W8A16).
    """

    weight_only: bool = False
    always_float32: tuple[str, ...] = field(default=("weight_scales",), repr=False)

    def empty(
        self, out_features: int, in_features: int, dtype: torch.dtype, device: torch.device | str | None
    ) -> dict[str, torch.Tensor]:
        _check_dtype(dtype)
        if in_features < 1:
            raise ValueError(f"QuantizedLinear: in_features must be positive, got {in_features}")
        row = (in_features + ROW_BYTES - 1) // ROW_BYTES * ROW_BYTES
        return {
            "quantized_weight": torch.empty(out_features, row, dtype=torch.int8, device=device),
            "weight_scales": torch.empty(out_features, dtype=torch.float32, device=device),
        }

    def quantize(self, weight: torch.Tensor) -> dict[str, torch.Tensor]:
        quantized_weight, weight_scales = quantize_int8_weight(weight)
        return {"quantized_weight": quantized_weight, "weight_scales": weight_scales}

    def dequantize(self, tensors: Tensors, in_features: int) -> torch.Tensor:
        return tensors["quantized_weight"][:, :in_features] * tensors["weight_scales"].unsqueeze(-1)

    def linear(self, x: torch.Tensor, tensors: Tensors, bias: torch.Tensor | None) -> torch.Tensor:
        multiply = int8_weight_linear if self.weight_only else int8_linear
        return multiply(x, tensors["quantized_weight"], tensors["weight_scales"], bias)


def weight_format(
    bits: int, group_size: int | None, *, zero_points: bool = False, weight_only: bool = False
) -> WeightFormat:
    """The format for this number of bits; zero_points applies to 4 bits, weight_only to 8 bits.

    Raises ValueError for an unsupported number of bits or combination.
    """
    if bits == 4:
        return Int4Groups(128 if group_size is None else group_size, zero_points)
    if bits != 8:
        raise ValueError(f"QuantizedLinear: bits must be 4 or 8, got {bits}")
    if group_size is not None:
        raise ValueError(f"QuantizedLinear: 8 bits have one scale for each output, and no group_size, got {group_size}")
    if zero_points:
        raise ValueError("QuantizedLinear: 8 bits are symmetric, and have no zero points")
    return Int8Channels(weight_only)


def _check_dtype(dtype: torch.dtype) -> None:
    if dtype not in _DTYPES:
        raise ValueError(f"QuantizedLinear: dtype must be float16, bfloat16 or float32, got {dtype}")
