"""Linear layer with 8-bit weights in Triton; the formula is in csrc/int8_weight_linear/int8_weight_linear.h."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8WeightLinearConfig:
    """One way to launch `_int8_weight_linear`."""

    block_rows: int
    block_outputs: int
    block_depth: int
    num_warps: int
    num_stages: int


def int8_weight_linear_config(*, rows: int) -> Int8WeightLinearConfig:
    """Config of tracked runs for x of `rows` rows. Reasoned, not tuned on any chip yet."""
    if rows <= 16:
        return Int8WeightLinearConfig(block_rows=16, block_outputs=32, block_depth=128, num_warps=4, num_stages=4)
    if rows <= 64:
        return Int8WeightLinearConfig(block_rows=64, block_outputs=64, block_depth=64, num_warps=4, num_stages=4)
    return Int8WeightLinearConfig(block_rows=128, block_outputs=128, block_depth=64, num_warps=8, num_stages=3)


def int8_weight_linear(
    x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.int8_weight_linear, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    given = {} if bias is None else {"bias": bias}
    check_devices("triton int8_weight_linear", x=x, weight=weight, weight_scales=weight_scales, **given)
    outputs, padded = weight.shape
    depth = x.shape[-1]
    if padded != triton.cdiv(depth, 16) * 16 or weight_scales.shape != (outputs,) or weight.dtype != torch.int8:
        raise RuntimeError(
            f"triton int8_weight_linear: weight must be int8 with K rounded up to a multiple of 16, and have a scale "
            f"for each output, beside x of shape {list(x.shape)}; got {list(weight.shape)} {weight.dtype} and "
            f"{list(weight_scales.shape)}"
        )
    if x.stride(-1) != 1 or not weight.is_contiguous():
        raise RuntimeError(
            "triton int8_weight_linear: weight and the last dimension of x must be contiguous, "
            f"got strides {weight.stride()} and {x.stride()}"
        )
    x_rows = x.reshape(-1, depth)
    rows = x_rows.shape[0]
    out = x.new_empty(*x.shape[:-1], outputs)
    config = int8_weight_linear_config(rows=rows)
    if out.numel():
        grid = (triton.cdiv(outputs, config.block_outputs), triton.cdiv(rows, config.block_rows))
        with torch.cuda.device_of(x):  # Triton launches on the current device
            _int8_weight_linear[grid](
                x_rows,
                weight,
                weight_scales,
                bias if bias is not None else weight_scales,
                out,
                rows,
                outputs,
                depth,
                padded,
                x_rows.stride(0),
                HAS_BIAS=bias is not None,
                BLOCK_ROWS=config.block_rows,
                BLOCK_OUTPUTS=config.block_outputs,
                BLOCK_DEPTH=config.block_depth,
                num_warps=config.num_warps,
                num_stages=config.num_stages,
            )
    return out


@triton.jit
def _int8_weight_linear(
    x_ptr,
    weight_ptr,
    weight_scales_ptr,
    bias_ptr,
    out_ptr,
    n_rows,
    n_outputs,
    depth,
    weight_stride,
    x_stride,
    HAS_BIAS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_OUTPUTS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
):
    """out[m, n] = (sum over k of x[m, k] * weight[n, k]) * weight_scales[n] + bias[n]; fp32 inside.

    One program per (block of outputs, block of rows). The conversion of int8 to x's dtype is exact.
    """
    output = tl.program_id(0) * BLOCK_OUTPUTS + tl.arange(0, BLOCK_OUTPUTS)
    row = tl.program_id(1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    live_output, live_row = output < n_outputs, row < n_rows
    k = tl.arange(0, BLOCK_DEPTH)
    x_rows = x_ptr + row[:, None].to(tl.int64) * x_stride + k[None, :]
    weight_rows = weight_ptr + output[:, None].to(tl.int64) * weight_stride + k[None, :]
    sums = tl.zeros((BLOCK_ROWS, BLOCK_OUTPUTS), dtype=tl.float32)
    for first in range(0, depth, BLOCK_DEPTH):
        live_k = (first + k < depth)[None, :]
        x = tl.load(x_rows + first, mask=live_row[:, None] & live_k, other=0.0)
        weight = tl.load(weight_rows + first, mask=live_output[:, None] & live_k, other=0)
        sums = tl.dot(x, tl.trans(weight.to(x.dtype)), sums, input_precision="ieee")
    value = sums * tl.load(weight_scales_ptr + output, mask=live_output, other=0.0)[None, :]
    if HAS_BIAS:
        value += tl.load(bias_ptr + output, mask=live_output, other=0.0).to(tl.float32)[None, :]
    at = row[:, None].to(tl.int64) * n_outputs + output[None, :]
    tl.store(out_ptr + at, value, mask=live_row[:, None] & live_output[None, :])
