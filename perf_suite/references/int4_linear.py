"""Reference of the linear layer with 4-bit weights."""

import torch


def int4_linear(x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, group_size: int = 128) -> torch.Tensor:
    """x @ dequantised(weight)^T in float64.

    x (..., K); packed (N, K / 2) uint8; scales (N, K / group_size); out (..., N).
    """
    return x.double() @ dequantised(packed, scales, group_size).T


def dequantised(packed: torch.Tensor, scales: torch.Tensor, group_size: int = 128) -> torch.Tensor:
    """The (N, K) weight in float64: (nibble - 8) * its group's scale, low nibble at even k."""
    nibbles = torch.stack((packed & 0xF, packed >> 4), dim=-1).flatten(-2)
    return (nibbles.double() - 8.0) * scales.double().repeat_interleave(group_size, dim=-1)
