"""Linear layer with 4-bit weights, and how a weight becomes 4-bit."""

from __future__ import annotations

import torch

from ..extension import load_operator
from .devices import check_devices

GROUP_SIZES = (64, 128)


def int4_linear(
    x: torch.Tensor, packed_weight: torch.Tensor, scales: torch.Tensor, *, group_size: int = 128
) -> torch.Tensor:
    """x times the dequantized weight, transposed; summed in float32, rounded once to x's dtype.

    x (..., K) in float16, in bfloat16 (GPUs from compute capability 8.0 on, and CPU) or in float32 (CPU), its last
    dimension contiguous and, on a GPU, its rows on 16-byte boundaries; packed_weight (N, K / 2) uint8 and scales
    (N, K / group_size) in x's dtype, both contiguous, as quantize_int4 makes them. The weight at (n, k) is
    (nibble - 8) * scales[n, k / group_size], the low nibble of a byte being the even k. group_size is 64 or 128 and
    divides K. The result is (..., N). Dimensions of x before the last are free, but where they do not collapse into
    rows of one stride, x is copied.
    Forward only: there is no gradient.
    Raises RuntimeError with a sentence for a shape, dtype, device or stride it does not take.
    """
    return _int4_linear(x, packed_weight, scales, group_size)


def quantize_int4(weight: torch.Tensor, group_size: int = 128) -> tuple[torch.Tensor, torch.Tensor]:
    """weight (N, K) as (packed_weight, scales) for int4_linear: symmetric, each group's largest value at 7.

    Each weight goes to the nearest multiple of its group's scale, so that it moves by half a scale at most.
    packed_weight (N, K / 2) uint8; scales (N, K / group_size) in weight's dtype (float16, bfloat16 or float32).
    Raises ValueError for another dtype or shape, and for a weight that is not finite.
    """
    _check_weight(weight, group_size)
    rows, depth = weight.shape
    groups = weight.float().view(rows, depth // group_size, group_size)
    info = torch.finfo(weight.dtype)
    # Below eight steps of the smallest representable number a rounded scale could leave its largest value beyond 7.5.
    least = max(8 * info.tiny * info.eps, torch.finfo(torch.float32).tiny)
    scales = (groups.abs().amax(dim=-1) / 7).clamp(min=least).to(weight.dtype)
    nibbles = ((groups / scales.float().unsqueeze(-1)).round().clamp(-8, 7) + 8).to(torch.uint8).view(rows, depth)
    return nibbles[:, 0::2] | (nibbles[:, 1::2] << 4), scales


def _check_weight(weight: torch.Tensor, group_size: int) -> None:
    if group_size not in GROUP_SIZES:
        raise ValueError(f"quantize_int4: group_size must be 64 or 128, got {group_size}")
    if weight.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"quantize_int4: weight must be float16, bfloat16 or float32, got {weight.dtype}")
    if weight.dim() != 2 or weight.shape[1] == 0 or weight.shape[1] % group_size:
        raise ValueError(
            f"quantize_int4: weight must be (N, K) with K a positive multiple of group_size {group_size}, "
            f"got shape {list(weight.shape)}"
        )
    if not bool(weight.isfinite().all()):
        raise ValueError("quantize_int4: weight must be finite, got a NaN or an infinity")


def _fake_int4_linear(
    x: torch.Tensor, packed_weight: torch.Tensor, scales: torch.Tensor, group_size: int = 128
) -> torch.Tensor:
    check_devices("int4_linear", x=x, packed_weight=packed_weight, scales=scales)
    return x.new_empty(*x.shape[:-1], packed_weight.shape[0])


_int4_linear = load_operator("int4_linear", fake=_fake_int4_linear)
