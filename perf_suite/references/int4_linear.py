"""Reference of the linear layer with 4-bit weights."""

import torch


def int4_linear(
    x: torch.Tensor,
    packed: torch.Tensor,
    scales: torch.Tensor,
    group_size: int = 128,
    zero_points: torch.Tensor | None = None,
) -> torch.Tensor:
    """x @ dequantised(weight)^T in float64.

    x (..., K); packed (N, K / 2) uint8; scales and zero_points (N, K / group_size); out (..., N).
    """
    return x.double() @ dequantised(packed, scales, group_size, zero_points).T


def dequantised(
    packed: torch.Tensor, scales: torch.Tensor, group_size: int = 128, zero_points: torch.Tensor | None = None
) -> torch.Tensor:
    """The (N, K) weight in float64: (nibble - its group's zero point, or 8) * its scale, low nibble at even k."""
    nibbles = torch.stack((packed & 0xF, packed >> 4), dim=-1).flatten(-2)
    zeros = 8.0 if zero_points is None else zero_points.double().repeat_interleave(group_size, dim=-1)
    return (nibbles.double() - zeros) * scales.double().repeat_interleave(group_size, dim=-1)
