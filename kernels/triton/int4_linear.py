"""Linear layer with 4-bit weights in Triton; the formula is in csrc/int4_linear/int4_linear.h."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4LinearConfig:
    """One way to launch `_int4_linear`."""

    block_rows: int  # rows of x per program
    block_outputs: int
    splits: int  # split-K: programs per output
    num_warps: int
    num_stages: int  # stages of the pipeline over groups


# Reasoned, not tuned on any chip yet. Few rows: narrow blocks of outputs, so that each of about 132 SMs gets about four
# programs, whose loads hide memory latency. Many rows: wide blocks, since each of them reads all of x.
_FEW_ROWS, _SOME_ROWS = 16, 64
_WANTED_PROGRAMS = 512


def int4_linear_config(*, rows: int, outputs: int, groups: int) -> Int4LinearConfig:
    """Config of tracked runs for x of `rows` rows, `outputs` outputs and `groups` groups in K."""
    if rows <= _FEW_ROWS:
        return Int4LinearConfig(
            block_rows=16, block_outputs=32, splits=_splits(outputs, 32, groups), num_warps=2, num_stages=4
        )
    if rows <= _SOME_ROWS:
        block_rows = 32 if rows <= 32 else 64
        return Int4LinearConfig(
            block_rows=block_rows, block_outputs=64, splits=_splits(outputs, 64, groups), num_warps=4, num_stages=3
        )
    return Int4LinearConfig(block_rows=64, block_outputs=128, splits=1, num_warps=8, num_stages=3)


def _splits(outputs: int, block_outputs: int, groups: int) -> int:
    # A split has at least four groups: with fewer, its prologue and the sum over splits cost more than they gain.
    blocks = max(1, -(-outputs // block_outputs))
    return max(1, min(_WANTED_PROGRAMS // blocks, groups // 4))


def int4_linear(
    x: torch.Tensor,
    packed_weight: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None = None,
    *,
    group_size: int = 128,
) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.int4_linear, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    given = {} if zero_points is None else {"zero_points": zero_points}
    check_devices("triton int4_linear", x=x, packed_weight=packed_weight, scales=scales, **given)
    _check(x, packed_weight, scales, zero_points, group_size)
    outputs, depth = scales.shape[0], x.shape[-1]
    x_rows = x.reshape(-1, depth)
    rows = x_rows.shape[0]
    groups = depth // group_size
    config = int4_linear_config(rows=rows, outputs=outputs, groups=groups)
    whole = config.splits == 1
    parts = x.new_empty((config.splits, rows, outputs), dtype=x.dtype if whole else torch.float32)
    if parts.numel():
        grid = (
            triton.cdiv(outputs, config.block_outputs),
            triton.cdiv(rows, config.block_rows),
            config.splits,
        )
        with torch.cuda.device_of(x):  # Triton launches on the current device
            _int4_linear[grid](
                x_rows,
                packed_weight,
                scales,
                scales if zero_points is None else zero_points,
                parts,
                rows,
                outputs,
                depth,
                x_rows.stride(0),
                ZERO_POINTS=zero_points is not None,
                GROUP=group_size,
                PART=triton.cdiv(groups, config.splits),
                BLOCK_ROWS=config.block_rows,
                BLOCK_OUTPUTS=config.block_outputs,
                num_warps=config.num_warps,
                num_stages=config.num_stages,
            )
    out = parts[0] if whole else parts.sum(dim=0).to(x.dtype)
    return out.view(*x.shape[:-1], outputs)


def _check(
    x: torch.Tensor,
    packed_weight: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None,
    group_size: int,
) -> None:
    outputs, depth = scales.shape[0], x.shape[-1]
    packed_shape = ((outputs + 15) // 16, depth // 64, 512)
    if group_size not in (64, 128) or depth == 0 or depth % group_size:
        raise RuntimeError(
            f"triton int4_linear: K must be a positive multiple of group_size 64 or 128, "
            f"got x of shape {list(x.shape)} and group_size {group_size}"
        )
    if packed_weight.shape != packed_shape or scales.shape != (outputs, depth // group_size):
        raise RuntimeError(
            f"triton int4_linear: packed_weight and scales must have shapes {list(packed_shape)} and "
            f"{[outputs, depth // group_size]} beside x of shape {list(x.shape)}, "
            f"got {list(packed_weight.shape)} and {list(scales.shape)}"
        )
    if packed_weight.dtype != torch.uint8 or scales.dtype != x.dtype or not x.dtype.is_floating_point:
        raise RuntimeError(
            "triton int4_linear: packed_weight must be uint8 and scales of x's dtype, "
            f"got {packed_weight.dtype}, {scales.dtype} and x of {x.dtype}"
        )
    if zero_points is not None and not (
        zero_points.shape == scales.shape and zero_points.dtype == torch.uint8 and zero_points.is_contiguous()
    ):
        raise RuntimeError(
            f"triton int4_linear: zero_points must be contiguous uint8 of scales' shape {list(scales.shape)}, "
            f"got {zero_points.dtype} of shape {list(zero_points.shape)}"
        )
    if x.stride(-1) != 1 or not packed_weight.is_contiguous() or not scales.is_contiguous():
        raise RuntimeError(
            "triton int4_linear: the last dimension of x, packed_weight and scales must be contiguous, "
            f"got strides {x.stride()}, {packed_weight.stride()} and {scales.stride()}"
        )


@triton.jit
def _int4_linear(
    x_ptr,
    packed_ptr,
    scales_ptr,
    zeros_ptr,
    parts_ptr,
    n_rows,
    n_outputs,
    depth,
    x_stride,
    ZERO_POINTS: tl.constexpr,
    GROUP: tl.constexpr,
    PART: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_OUTPUTS: tl.constexpr,
):
    """parts[split, m, n] = sum over the split's groups of scales[n, group] * sum of x[m, k] * (value[n, k] - zero).

    zero is zeros[n, group] with ZERO_POINTS, else 8 (zeros_ptr is not read).
    One program per (block of outputs, block of rows, split of PART groups); fp32 inside. A byte holds the values of two
    outputs, n in its low and n + 8 in its high half, for the same k. The bytes of 64 of k are in the order described in
    csrc/int4_linear/int4_linear.h, and x is read in that order, so a group takes two products.
    """
    pair = tl.program_id(0) * (BLOCK_OUTPUTS // 2) + tl.arange(0, BLOCK_OUTPUTS // 2)
    strip = pair // 8
    output = strip * 16 + pair % 8  # and output + 8
    row = tl.program_id(1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    split = tl.program_id(2)
    live_strip = strip * 16 < n_outputs
    live_low = output < n_outputs
    live_high = output + 8 < n_outputs
    live_row = row < n_rows
    byte = tl.arange(0, GROUP)
    within = byte % 64
    k = byte // 64 * 64 + within // 4 % 4 * 16 + within % 2 * 8 + within // 16 * 2 + within // 2 % 2
    groups = depth // GROUP
    packed_rows = packed_ptr + (strip.to(tl.int64) * depth * 8 + pair % 8 * 64)[:, None]
    packed_rows += (byte // 64 * 512 + within)[None, :]
    x_rows = x_ptr + row[:, None].to(tl.int64) * x_stride + k[None, :]
    scale_rows = scales_ptr + output.to(tl.int64) * groups
    zero_rows = zeros_ptr + output.to(tl.int64) * groups

    total_low = tl.zeros((BLOCK_ROWS, BLOCK_OUTPUTS // 2), dtype=tl.float32)
    total_high = tl.zeros((BLOCK_ROWS, BLOCK_OUTPUTS // 2), dtype=tl.float32)
    for step in range(PART):
        group = split * PART + step
        # The last split may be shorter; the rest counts as zero. A one-element tensor, since Triton 3.9's interpreter
        # turns a mask and-ed with a scalar into an integer.
        there = tl.full((1,), group, tl.int32) < groups
        at = group.to(tl.int64) * GROUP
        packed = tl.load(packed_rows + at * 8, mask=live_strip[:, None] & there, other=0)
        values = tl.load(x_rows + at, mask=live_row[:, None] & there, other=0.0)
        low = (packed & 0xF).to(values.dtype)
        high = (packed >> 4).to(values.dtype)
        if ZERO_POINTS:
            zero_low = tl.load(zero_rows + group, mask=live_low & there, other=0).to(values.dtype)
            zero_high = tl.load(zero_rows + 8 * groups + group, mask=live_high & there, other=0).to(values.dtype)
            low -= zero_low[:, None]
            high -= zero_high[:, None]
        else:
            low -= 8.0
            high -= 8.0
        scale_low = tl.load(scale_rows + group, mask=live_low & there, other=0.0).to(tl.float32)
        scale_high = tl.load(scale_rows + 8 * groups + group, mask=live_high & there, other=0.0).to(tl.float32)
        total_low += tl.dot(values, tl.trans(low), input_precision="ieee") * scale_low[None, :]
        total_high += tl.dot(values, tl.trans(high), input_precision="ieee") * scale_high[None, :]
    parts_rows = parts_ptr + (split.to(tl.int64) * n_rows + row[:, None]) * n_outputs + output[None, :]
    tl.store(parts_rows, total_low, mask=live_row[:, None] & live_low[None, :])
    tl.store(parts_rows + 8, total_high, mask=live_row[:, None] & live_high[None, :])
