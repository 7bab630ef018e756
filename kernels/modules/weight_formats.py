"""How a linear layer's weight is held in few bits: one class a format, each around its operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from ..operators.int4_linear import GROUP_SIZES, int4_linear, quantize_int4

Tensors = Mapping[str, torch.Tensor]


class WeightFormat(Protocol):
    """The tensors that hold a weight (out_features, in_features), made from it and multiplied with."""

    def empty(
        self, out_features: int, in_features: int, dtype: torch.dtype, device: torch.device | str | None
    ) -> dict[str, torch.Tensor]:
        """Room for the tensors, by name. Raises ValueError for features that the format does not take."""

    def quantize(self, weight: torch.Tensor) -> dict[str, torch.Tensor]:
        """The tensors of a weight, on its device; scales in its dtype."""

    def dequantize(self, tensors: Tensors) -> torch.Tensor:
        """The weight that the tensors stand for, in the dtype of the scales."""

    def linear(self, x: torch.Tensor, tensors: Tensors) -> torch.Tensor:
        """x (..., in_features) times the dequantized weight, transposed."""


@dataclass(frozen=True, slots=True)
class Int4Groups:
    """Symmetric 4-bit values, two a byte, with a scale for `group_size` neighbours along in_features (W4A16)."""

    group_size: int

    def empty(
        self, out_features: int, in_features: int, dtype: torch.dtype, device: torch.device | str | None
    ) -> dict[str, torch.Tensor]:
        if self.group_size not in GROUP_SIZES:
            raise ValueError(f"QuantizedLinear: group_size must be 64 or 128, got {self.group_size}")
        if dtype not in (torch.float16, torch.bfloat16, torch.float32):
            raise ValueError(f"QuantizedLinear: dtype must be float16, bfloat16 or float32, got {dtype}")
        if in_features < 1 or in_features % self.group_size:
            raise ValueError(
                f"QuantizedLinear: in_features must be a positive multiple of group_size {self.group_size}, "
                f"got {in_features}"
            )
        groups = in_features // self.group_size
        return {
            "packed_weight": torch.empty(out_features, in_features // 2, dtype=torch.uint8, device=device),
            "scales": torch.empty(out_features, groups, dtype=dtype, device=device),
        }

    def quantize(self, weight: torch.Tensor) -> dict[str, torch.Tensor]:
        packed_weight, scales = quantize_int4(weight, self.group_size)
        return {"packed_weight": packed_weight, "scales": scales}

    def dequantize(self, tensors: Tensors) -> torch.Tensor:
        packed_weight, scales = tensors["packed_weight"], tensors["scales"]
        nibbles = torch.stack((packed_weight & 15, packed_weight >> 4), dim=-1).view(*scales.shape, self.group_size)
        return ((nibbles.float() - 8) * scales.float().unsqueeze(-1)).to(scales.dtype).flatten(1)

    def linear(self, x: torch.Tensor, tensors: Tensors) -> torch.Tensor:
        return int4_linear(x, tensors["packed_weight"], tensors["scales"], group_size=self.group_size)


def weight_format(bits: int, group_size: int) -> WeightFormat:
    """The format of so many bits. Raises ValueError for a number of bits that has none."""
    if bits != 4:
        raise ValueError(f"QuantizedLinear: bits must be 4, got {bits}")
    return Int4Groups(group_size)
