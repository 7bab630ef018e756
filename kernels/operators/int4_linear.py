"""Linear layer with 4-bit weights, and the quantization of weights to 4 bits."""

from __future__ import annotations

import torch

from ..extension import load_operator


def pack_int4(values: torch.Tensor) -> torch.Tensor:
    """Pack values (N, K) uint8, each 0 to 15, K a multiple of 64, as int4_linear's packed_weight.

    The result is (ceil(N / 16), K / 64, 512) uint8: 512 bytes for 16 outputs and 64 of K, in the order of the tensor
    cores' registers (csrc/int4_linear/int4_linear.h). N is padded to a multiple of 16 with zeros.
    Raises ValueError for another dtype or shape.
    """
    if values.dtype != torch.uint8 or values.dim() != 2 or values.shape[1] == 0 or values.shape[1] % 64:
        raise ValueError(
            f"pack_int4: values must be (N, K) uint8 with K a positive multiple of 64, "
            f"got {values.dtype} of shape {list(values.shape)}"
        )
    outputs, depth = values.shape
    strips = (outputs + 15) // 16
    if outputs % 16:
        values = torch.cat((values, values.new_zeros(strips * 16 - outputs, depth)))
    # output 16 i + 8 v + g and k 64 j + 16 s + 8 u + 2 t + e
    i_v_g_j_s_u_t_e = values.reshape(strips, 2, 8, depth // 64, 4, 2, 4, 2)
    low, high = i_v_g_j_s_u_t_e.permute(1, 0, 3, 2, 6, 4, 7, 5)  # v, of i j g t s e u
    return (low | (high << 4)).reshape(strips, depth // 64, 512)


def unpack_int4(packed_weight: torch.Tensor, outputs: int) -> torch.Tensor:
    """The values (outputs, K) uint8, 0 to 15, of a packed_weight made by pack_int4.

    Raises ValueError for another dtype or shape, or a number of outputs that does not match it.
    """
    if packed_weight.dtype != torch.uint8 or packed_weight.dim() != 3 or packed_weight.shape[2] != 512:
        raise ValueError(
            f"unpack_int4: packed_weight must be (ceil(N / 16), K / 64, 512) uint8, "
            f"got {packed_weight.dtype} of shape {list(packed_weight.shape)}"
        )
    strips, tiles, _ = packed_weight.shape
    if (outputs + 15) // 16 != strips:
        raise ValueError(f"unpack_int4: {strips} times 16 outputs are packed, and not {outputs}")
    i_j_g_t_s_e_u = packed_weight.reshape(strips, tiles, 8, 4, 4, 2, 2)
    v_i_j_g_t_s_e_u = torch.stack((i_j_g_t_s_e_u & 15, i_j_g_t_s_e_u >> 4))
    return v_i_j_g_t_s_e_u.permute(1, 0, 3, 2, 5, 7, 4, 6).reshape(strips * 16, tiles * 64)[:outputs]


GROUP_SIZES = (64, 128)


def int4_linear(
    x: torch.Tensor,
    packed_weight: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None = None,
    *,
    group_size: int = 128,
) -> torch.Tensor:
    """x times the transpose of the dequantized weight; summed in float32, rounded once to x's dtype.

    x (..., K) in float16, in bfloat16 (GPUs from compute capability 8.0 on, and CPU) or in float32 (CPU), its last
    dimension contiguous and, on a GPU, its rows on 16-byte boundaries; packed_weight (ceil(N / 16), K / 64, 512) uint8
    and scales (N, K / group_size) in x's dtype, both contiguous, as quantize_int4 makes them. The weight at (n, k) is
    (value - 8) * scales[n, k / group_size], with the values (N, K) that pack_int4 has packed. With zero_points
    (N, K / group_size) uint8, 0 to 15, contiguous, as quantize_int4_zero_point makes them, it is
    (value - zero_points[n, k / group_size]) * scales[n, k / group_size]. group_size is 64 or 128 and divides K. The
    result is (..., N). Leading dimensions of x are free, but x is copied if they do not collapse into rows of one
    stride. With few rows, each product of x and value - zero is exact. On a GPU more than 128 rows, on Hopper more than
    256, go to cuBLAS with a temporary weight that is dequantized, and so rounded, to x's dtype.
    Forward only: there is no gradient.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    return _int4_linear(x, packed_weight, scales, group_size, zero_points)


def quantize_int4(weight: torch.Tensor, group_size: int = 128) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize weight (N, K) to (packed_weight, scales): symmetric, each group's largest magnitude at 7.

    Each weight is rounded to the nearest multiple of its group's scale, so it changes by at most half a scale.
    packed_weight as made by pack_int4; scales (N, K / group_size) in weight's dtype (float16, bfloat16 or float32).
    Raises ValueError for another dtype or shape, and for a non-finite weight.
    """
    groups = _groups("quantize_int4", weight, group_size)
    scales = (groups.abs().amax(dim=-1) / 7).clamp(min=_least_scale(weight.dtype)).to(weight.dtype)
    nibbles = (groups / scales.float().unsqueeze(-1)).round().clamp(-8, 7) + 8
    return pack_int4(nibbles.to(torch.uint8).flatten(1)), scales


def quantize_int4_zero_point(
    weight: torch.Tensor, group_size: int = 128
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Quantize weight (N, K) to (packed_weight, scales, zero_points): 15 steps from a group's minimum to its maximum.

    Zero is one of the 16 values, so the minimum is taken as at most 0 and the maximum as at least 0. Each weight
    changes by at most half a scale plus the rounding of the scale itself over 15 steps.
    packed_weight as made by pack_int4; scales (N, K / group_size) in weight's dtype (float16, bfloat16 or float32);
    zero_points (N, K / group_size) uint8, 0 to 15.
    Raises ValueError for another dtype or shape, and for a non-finite weight.
    """
    groups = _groups("quantize_int4_zero_point", weight, group_size)
    least, most = groups.amin(dim=-1).clamp(max=0), groups.amax(dim=-1).clamp(min=0)
    # Divide first: the difference of two large numbers may overflow to infinity.
    scales = (most / 15 - least / 15).clamp(min=_least_scale(weight.dtype)).to(weight.dtype)
    steps = scales.float()
    zeros = (-least / steps).round().clamp(0, 15)
    nibbles = ((groups / steps.unsqueeze(-1)).round() + zeros.unsqueeze(-1)).clamp(0, 15)
    return pack_int4(nibbles.to(torch.uint8).flatten(1)), scales, zeros.to(torch.uint8)


def _groups(quantizer: str, weight: torch.Tensor, group_size: int) -> torch.Tensor:
    # The weight in float32 as (N, groups, group_size); raises ValueError.
    if group_size not in GROUP_SIZES:
        raise ValueError(f"{quantizer}: group_size must be 64 or 128, got {group_size}")
    if weight.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"{quantizer}: weight must be float16, bfloat16 or float32, got {weight.dtype}")
    if weight.dim() != 2 or weight.shape[1] == 0 or weight.shape[1] % group_size:
        raise ValueError(
            f"{quantizer}: weight must be (N, K) with K a positive multiple of group_size {group_size}, "
            f"got shape {list(weight.shape)}"
        )
    if not bool(weight.isfinite().all()):
        raise ValueError(f"{quantizer}: weight must be finite, got a NaN or an infinity")
    rows, depth = weight.shape
    return weight.float().view(rows, depth // group_size, group_size)


def _least_scale(dtype: torch.dtype) -> float:
    # Below eight steps of the smallest representable number, a rounded scale could map its largest value beyond 7.5.
    info = torch.finfo(dtype)
    return max(8 * info.tiny * info.eps, torch.finfo(torch.float32).tiny)


_int4_linear = load_operator("int4_linear", result=lambda x, scales, **_: x.new_empty(*x.shape[:-1], scales.shape[0]))
