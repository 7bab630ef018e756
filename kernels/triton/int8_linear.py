"""Linear layer on int8 in Triton; the formulas are in csrc/int8_linear/int8_linear.h and
csrc/quantize_int8/quantize_int8.h."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8LinearConfig:
    """One way to launch `_int8_linear`."""

    block_rows: int
    block_outputs: int
    block_depth: int
    num_warps: int
    num_stages: int


# Reasoned, not tuned on any chip yet. Few rows: narrow blocks of outputs, so that over a hundred programs read the
# weights. Many rows: wide blocks, since each of them reads all of x. Three stages of 32 KB fit 99 KB of shared memory.
def int8_linear_config(*, rows: int, outputs: int) -> Int8LinearConfig:
    """Config of tracked runs for x of `rows` rows and `outputs` outputs."""
    if rows <= 16:
        return Int8LinearConfig(block_rows=16, block_outputs=32, block_depth=256, num_warps=4, num_stages=4)
    if rows <= 64:
        return Int8LinearConfig(block_rows=64, block_outputs=32, block_depth=128, num_warps=4, num_stages=4)
    if rows <= 256 and outputs <= 8192:
        return Int8LinearConfig(block_rows=64, block_outputs=64, block_depth=128, num_warps=4, num_stages=4)
    return Int8LinearConfig(block_rows=128, block_outputs=128, block_depth=128, num_warps=8, num_stages=3)


_ROW_BYTES = 16


def int8_linear(
    x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.int8_linear, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    given = {} if bias is None else {"bias": bias}
    check_devices("triton int8_linear", x=x, weight=weight, weight_scales=weight_scales, **given)
    _check(x, weight, weight_scales)
    outputs, depth = weight.shape
    out = x.new_empty(*x.shape[:-1], outputs)
    values, x_scales = quantize_int8_per_token(x)
    rows = x_scales.numel()
    config = int8_linear_config(rows=rows, outputs=outputs)
    if out.numel():
        grid = (triton.cdiv(outputs, config.block_outputs), triton.cdiv(rows, config.block_rows))
        with torch.cuda.device_of(x):  # Triton launches on the current device
            _int8_linear[grid](
                values,
                x_scales,
                weight,
                weight_scales,
                bias if bias is not None else weight_scales,
                out,
                rows,
                outputs,
                depth,
                HAS_BIAS=bias is not None,
                # Triton has no int8 tl.dot on Turing.
                THROUGH_HALF=x.is_cuda and torch.cuda.get_device_capability(x.device) < (8, 0),
                BLOCK_ROWS=config.block_rows,
                BLOCK_OUTPUTS=config.block_outputs,
                BLOCK_DEPTH=config.block_depth,
                num_warps=config.num_warps,
                num_stages=config.num_stages,
            )
    return out


def quantize_int8_per_token(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Triton twin of warpwatch.kernels.quantize_int8_per_token, for CUDA tensors."""
    depth = x.shape[-1]
    if depth == 0 or (x.stride(-1) != 1 and depth > 1):
        raise RuntimeError(
            f"triton quantize_int8_per_token: the last dimension of x must be contiguous and not empty, "
            f"got shape {list(x.shape)} and strides {x.stride()}"
        )
    x_rows = x.reshape(-1, depth)
    padded = triton.cdiv(depth, _ROW_BYTES) * _ROW_BYTES
    values = x.new_empty((*x.shape[:-1], padded), dtype=torch.int8)
    scales = x.new_empty(x.shape[:-1], dtype=torch.float32)
    if scales.numel():
        block = min(4096, max(16, triton.next_power_of_2(padded)))
        with torch.cuda.device_of(x):
            # x * inverse is rounded before the conversion to an integer, as in the operator. An FMA with the addition
            # would break ties differently; half of a row's largest magnitude, a tie, is common in 16 bits.
            _quantize_int8_rows[(scales.numel(),)](
                x_rows,
                values,
                scales,
                x_rows.stride(0),
                depth,
                padded,
                BLOCK=block,
                num_warps=8,
                enable_fp_fusion=False,
            )
    return values, scales


def _check(x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor) -> None:
    outputs, padded = weight.shape[0], triton.cdiv(x.shape[-1], _ROW_BYTES) * _ROW_BYTES
    if weight.shape != (outputs, padded) or weight_scales.shape != (outputs,):
        raise RuntimeError(
            f"triton int8_linear: weight and weight_scales must have shapes {[outputs, padded]} and {[outputs]} "
            f"beside x of shape {list(x.shape)}, got {list(weight.shape)} and {list(weight_scales.shape)}"
        )
    if weight.dtype != torch.int8 or weight_scales.dtype != torch.float32 or not weight.is_contiguous():
        raise RuntimeError(
            "triton int8_linear: weight must be int8 and contiguous, weight_scales float32, "
            f"got {weight.dtype}, strides {weight.stride()} and {weight_scales.dtype}"
        )


@triton.jit
def _quantize_int8_rows(x_ptr, values_ptr, scales_ptr, x_stride, depth, padded, BLOCK: tl.constexpr):
    """scales[m] = max(2^-100, max |x[m, :]|) / 127, values = x * (127 / max), ties to even; one program per row."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), 7.888609052210118e-31, tl.float32)
    for first in range(0, padded, BLOCK):
        x = tl.load(x_ptr + row * x_stride + first + column, mask=first + column < depth, other=0.0)
        largest = tl.maximum(largest, tl.abs(x.to(tl.float32)), propagate_nan=tl.PropagateNan.ALL)
    # tl.max drops NaN; x != x detects it.
    any_nan = tl.max((largest != largest).to(tl.int32), axis=0)
    most = tl.max(largest, axis=0)
    most = tl.where(any_nan > 0, float("nan"), most)
    tl.store(scales_ptr + row, tl.div_rn(most, 127.0))
    inverse = tl.div_rn(127.0, most)
    for first in range(0, padded, BLOCK):
        x = tl.load(x_ptr + row * x_stride + first + column, mask=first + column < depth, other=0.0).to(tl.float32)
        steps = x * inverse
        # Adding and subtracting 1.5 * 2^23 rounds to the nearest integer, ties to even.
        steps = (steps + 12582912.0) - 12582912.0
        steps = tl.where(steps == steps, tl.minimum(tl.maximum(steps, -127.0), 127.0), 0.0)
        tl.store(values_ptr + row * padded + first + column, steps.to(tl.int8), mask=first + column < padded)


@triton.jit
def _int8_linear(
    x_ptr,
    x_scales_ptr,
    weight_ptr,
    weight_scales_ptr,
    bias_ptr,
    out_ptr,
    n_rows,
    n_outputs,
    depth,
    HAS_BIAS: tl.constexpr,
    THROUGH_HALF: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_OUTPUTS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
):
    """out[m, n] = sum over k of x[m, k] * weight[n, k], exact, * x_scales[m] * weight_scales[n] + bias[n].

    One program per (block of outputs, block of rows). THROUGH_HALF multiplies in fp16 with the same sums: int8 is exact
    in fp16, and so is the fp32 sum of up to 1024 products, below 2^24.
    """
    output = tl.program_id(0) * BLOCK_OUTPUTS + tl.arange(0, BLOCK_OUTPUTS)
    row = tl.program_id(1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    live_output, live_row = output < n_outputs, row < n_rows
    k = tl.arange(0, BLOCK_DEPTH)
    x_rows = x_ptr + row[:, None].to(tl.int64) * depth + k[None, :]
    weight_rows = weight_ptr + output[:, None].to(tl.int64) * depth + k[None, :]
    sums = tl.zeros((BLOCK_ROWS, BLOCK_OUTPUTS), dtype=tl.int32)
    for first in range(0, depth, BLOCK_DEPTH):
        live_k = (first + k < depth)[None, :]
        x = tl.load(x_rows + first, mask=live_row[:, None] & live_k, other=0)
        weight = tl.load(weight_rows + first, mask=live_output[:, None] & live_k, other=0)
        if THROUGH_HALF:
            sums += tl.dot(x.to(tl.float16), tl.trans(weight.to(tl.float16))).to(tl.int32)
        else:
            sums = tl.dot(x, tl.trans(weight), sums, out_dtype=tl.int32)
    x_scale = tl.load(x_scales_ptr + row, mask=live_row, other=0.0)
    weight_scale = tl.load(weight_scales_ptr + output, mask=live_output, other=0.0)
    value = sums.to(tl.float32) * x_scale[:, None] * weight_scale[None, :]
    if HAS_BIAS:
        value += tl.load(bias_ptr + output, mask=live_output, other=0.0).to(tl.float32)[None, :]
    at = row[:, None].to(tl.int64) * n_outputs + output[None, :]
    tl.store(out_ptr + at, value, mask=live_row[:, None] & live_output[None, :])
