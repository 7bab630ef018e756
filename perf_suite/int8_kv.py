"""Reference of keys and values as 8-bit integers, one scale a token and head."""

from __future__ import annotations

from warpbench.lazy import torch

LEAST = 2.0**-100  # the smallest largest magnitude of a row


def int8_quantize(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(codes int8 like x, scales float32 without its last dimension): of each row, nearest to x / scale.

    In float32, as the operators compute: their codes are these, bit for bit. x is finite.
    """
    rows = x.float()
    largest = rows.abs().amax(-1).clamp_min(LEAST)
    most = torch.full_like(largest, 127.0)  # a number instead would be divided by in two roundings
    codes = (rows * (most / largest)[..., None]).round().clamp(-127, 127)
    return codes.to(torch.int8), largest / most


def int8_dequantize(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """What the codes stand for, in float64."""
    return codes.double() * scales.double()[..., None]
