"""Linear layers with their activation in Triton; the formulas are in csrc/linear_activation/linear_activation.h."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearActivationConfig:
    """One way to launch `_linear_activation` or `_swiglu`."""

    block_rows: int
    block_outputs: int
    block_depth: int
    num_warps: int
    num_stages: int


def linear_activation_config(*, rows: int, weights: int, element_bytes: int) -> LinearActivationConfig:
    """Config of tracked runs for x of `rows` rows and 1 or 2 weights. Reasoned, not tuned on any chip yet.

    Three stages of a block's x and weights fit the 99 KB of an RTX card, and for few rows the 64 KB of a T4.
    """
    depth = 64 if element_bytes == 2 else 32
    if rows <= 64:
        return LinearActivationConfig(
            block_rows=16 if rows <= 16 else 64,
            block_outputs=64 // weights,
            block_depth=depth,
            num_warps=4,
            num_stages=3,
        )
    return LinearActivationConfig(
        block_rows=64, block_outputs=128 // weights, block_depth=depth, num_warps=4, num_stages=3
    )


_GELUS = {"none": 1, "tanh": 2}
_NONE, _SILU = 0, 3


def linear_gelu(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *, approximate: str = "none"
) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.linear_gelu, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    return _launch("linear_gelu", x, weight, bias, _GELUS[approximate])


def linear_silu(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.linear_silu, for CUDA tensors."""
    return _launch("linear_silu", x, weight, bias, _SILU)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.linear, for CUDA tensors."""
    return _launch("linear", x, weight, bias, _NONE)


def _launch(
    operator: str, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, activation: int
) -> torch.Tensor:
    given = {} if bias is None else {"bias": bias}
    check_devices(f"triton {operator}", x=x, weight=weight, **given)
    outputs, depth = weight.shape
    if x.shape[-1] != depth or x.dtype != weight.dtype or x.stride(-1) != 1 or weight.stride(-1) != 1:
        raise RuntimeError(
            f"triton {operator}: x and weight must agree in dtype and in their last dimension, which is contiguous; "
            f"got {list(x.shape)} {x.dtype}, strides {x.stride()}, and {list(weight.shape)} {weight.dtype}, "
            f"strides {weight.stride()}"
        )
    x_rows = x.reshape(-1, depth)
    rows = x_rows.shape[0]
    out = x.new_empty(*x.shape[:-1], outputs)
    config = linear_activation_config(rows=rows, weights=1, element_bytes=x.element_size())
    if out.numel():
        grid = (triton.cdiv(outputs, config.block_outputs), triton.cdiv(rows, config.block_rows))
        with torch.cuda.device_of(x):  # Triton launches on the current device
            _linear_activation[grid](
                x_rows,
                weight,
                bias if bias is not None else weight,
                out,
                rows,
                outputs,
                depth,
                x_rows.stride(0),
                weight.stride(0),
                HAS_BIAS=bias is not None,
                ACTIVATION=activation,
                BLOCK_ROWS=config.block_rows,
                BLOCK_OUTPUTS=config.block_outputs,
                BLOCK_DEPTH=config.block_depth,
                num_warps=config.num_warps,
                num_stages=config.num_stages,
            )
    return out


@triton.jit
def _linear_activation(
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    n_rows,
    n_outputs,
    depth,
    x_stride,
    weight_stride,
    HAS_BIAS: tl.constexpr,
    ACTIVATION: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_OUTPUTS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
):
    """out[m, n] = activation(sum over k of x[m, k] * weight[n, k] + bias[n]); fp32 inside.

    One program per (block of outputs, block of rows). ACTIVATION: 0 none, 1 gelu, 2 gelu by tanh, 3 silu.
    """
    output = tl.program_id(0) * BLOCK_OUTPUTS + tl.arange(0, BLOCK_OUTPUTS)
    row = tl.program_id(1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    live_output, live_row = output < n_outputs, row < n_rows
    k = tl.arange(0, BLOCK_DEPTH)
    x_rows = x_ptr + row[:, None].to(tl.int64) * x_stride + k[None, :]
    weight_rows = weight_ptr + output[:, None].to(tl.int64) * weight_stride + k[None, :]
    value = tl.zeros((BLOCK_ROWS, BLOCK_OUTPUTS), dtype=tl.float32)
    for first in range(0, depth, BLOCK_DEPTH):
        live_k = (first + k < depth)[None, :]
        x = tl.load(x_rows + first, mask=live_row[:, None] & live_k, other=0.0)
        weight = tl.load(weight_rows + first, mask=live_output[:, None] & live_k, other=0.0)
        value = tl.dot(x, tl.trans(weight), value, input_precision="ieee")
    if HAS_BIAS:
        value += tl.load(bias_ptr + output, mask=live_output, other=0.0).to(tl.float32)[None, :]
    if ACTIVATION == 1:
        value = 0.5 * value * (1.0 + tl.erf(value * 0.7071067811865476))
    elif ACTIVATION == 2:  # (1 + tanh u) / 2 is sigmoid(2 u)
        value = value * tl.sigmoid(1.5957691216057308 * (value + 0.044715 * value * value * value))
    elif ACTIVATION == 3:
        value = value * tl.sigmoid(value)
    at = row[:, None].to(tl.int64) * n_outputs + output[None, :]
    tl.store(out_ptr + at, value, mask=live_row[:, None] & live_output[None, :])
