"""References of quantized keys and values: 8-bit integers with a scale a token and head, and KIVI's 4-bit layout."""

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


GROUP = 32  # tokens of keys, channels of values


def int4_quantize(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(codes 0 .. 15 uint8 like x, scales, zeros float16) of the numbers along the last dimension, which share a scale.

    In float32 with scale and zero rounded to float16, as the operators compute: their codes are these, bit for bit.
    """
    x = x.float()
    largest = torch.finfo(torch.float16).max
    least, most = x.amin(-1).clamp(-largest, largest), x.amax(-1).clamp(-largest, largest)
    zeros = least.half()
    scales = ((most - least) / torch.full_like(most, 15.0)).half()
    beyond = 15.0 * scales.float() + least > largest  # rounded up, the scale takes the largest code there
    scales = torch.where(beyond, (scales.view(torch.int16) - 1).view(torch.float16), scales)
    step = scales.float()
    inverse = torch.where(step > 0, torch.ones_like(step) / step, 0.0)
    codes = ((x - zeros.float()[..., None]) * inverse[..., None]).round().clamp(0, 15)
    return codes.to(torch.uint8), scales, zeros


def pack_nibbles(codes: torch.Tensor) -> torch.Tensor:
    """Codes 2 i and 2 i + 1 of the last dimension as byte i, the first one low."""
    return codes[..., 0::2] | codes[..., 1::2] << 4


def int4_quantize_keys(k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(codes, scales) as int4_kv_append holds whole groups of keys: k (batch, heads_kv, capacity, head_dim)."""
    groups = k.unflatten(2, (-1, GROUP)).transpose(-1, -2)  # (batch, heads_kv, groups, head_dim, 32)
    codes, scales, zeros = int4_quantize(groups)
    return pack_nibbles(codes.transpose(-1, -2).flatten(2, 3)), torch.stack((scales, zeros), dim=3)


def int4_quantize_values(v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(codes, scales) as int4_kv_append holds whole groups of values: v (batch, heads_kv, capacity, head_dim)."""
    codes, scales, zeros = int4_quantize(v.unflatten(3, (-1, GROUP)))
    return pack_nibbles(codes.flatten(3)), torch.stack((scales, zeros), dim=-1)


def int4_dequantize_keys(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """What they stand for, in float64."""
    of_tokens = scales.double().repeat_interleave(GROUP, dim=2)  # (batch, heads_kv, capacity, 2, head_dim)
    return _unpacked(codes) * of_tokens[..., 0, :] + of_tokens[..., 1, :]


def int4_dequantize_values(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """What they stand for, in float64."""
    of_channels = scales.double().repeat_interleave(GROUP, dim=3)  # (batch, heads_kv, capacity, head_dim, 2)
    return _unpacked(codes) * of_channels[..., 0] + of_channels[..., 1]


def with_window(whole: torch.Tensor, window: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """`whole` in float64 with each sequence's tokens behind its last whole group from the window."""
    out = whole.double().clone()
    for b, length in enumerate(lengths.clamp(0, whole.shape[2]).tolist()):
        first = length // GROUP * GROUP
        out[b, :, first:length] = window[b, :, : length - first].double()
    return out


def _unpacked(codes: torch.Tensor) -> torch.Tensor:
    return torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2).double()
