"""swiglu in Triton, both products in one launch; the formula is in csrc/linear_activation/linear_activation.h."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices
from .linear_activation import linear_activation_config


def swiglu(
    x: torch.Tensor,
    gate_weight: torch.Tensor,
    up_weight: torch.Tensor,
    gate_bias: torch.Tensor | None = None,
    up_bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.swiglu, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    biases = {"gate_bias": gate_bias, "up_bias": up_bias}
    given = {name: bias for name, bias in biases.items() if bias is not None}
    check_devices("triton swiglu", x=x, gate_weight=gate_weight, up_weight=up_weight, **given)
    outputs, depth = gate_weight.shape
    same = gate_weight.shape == up_weight.shape and gate_weight.dtype == up_weight.dtype == x.dtype
    if not same or x.shape[-1] != depth or (x.stride(-1), gate_weight.stride(-1), up_weight.stride(-1)) != (1, 1, 1):
        raise RuntimeError(
            f"triton swiglu: x and both weights must agree in dtype and in their last dimension, which is contiguous; "
            f"got {list(x.shape)} {x.dtype}, {list(gate_weight.shape)} {gate_weight.dtype} and "
            f"{list(up_weight.shape)} {up_weight.dtype}"
        )
    x_rows = x.reshape(-1, depth)
    rows = x_rows.shape[0]
    out = x.new_empty(*x.shape[:-1], outputs)
    config = linear_activation_config(rows=rows, weights=2, element_bytes=x.element_size())
    if out.numel():
        grid = (triton.cdiv(outputs, config.block_outputs), triton.cdiv(rows, config.block_rows))
        with torch.cuda.device_of(x):  # Triton launches on the current device
            _swiglu[grid](
                x_rows,
                gate_weight,
                up_weight,
                gate_bias if gate_bias is not None else x_rows,
                up_bias if up_bias is not None else x_rows,
                out,
                rows,
                outputs,
                depth,
                x_rows.stride(0),
                gate_weight.stride(0),
                up_weight.stride(0),
                HAS_GATE_BIAS=gate_bias is not None,
                HAS_UP_BIAS=up_bias is not None,
                BLOCK_ROWS=config.block_rows,
                BLOCK_OUTPUTS=config.block_outputs,
                BLOCK_DEPTH=config.block_depth,
                num_warps=config.num_warps,
                num_stages=config.num_stages,
            )
    return out


@triton.jit
def _swiglu(
    x_ptr,
    gate_weight_ptr,
    up_weight_ptr,
    gate_bias_ptr,
    up_bias_ptr,
    out_ptr,
    n_rows,
    n_outputs,
    depth,
    x_stride,
    gate_stride,
    up_stride,
    HAS_GATE_BIAS: tl.constexpr,
    HAS_UP_BIAS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_OUTPUTS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
):
    """out[m, n] = silu(x[m, :] . gate_weight[n, :] + gate_bias[n]) * (x[m, :] . up_weight[n, :] + up_bias[n]).

    One program per (block of outputs, block of rows); fp32 inside.
    """
    output = tl.program_id(0) * BLOCK_OUTPUTS + tl.arange(0, BLOCK_OUTPUTS)
    row = tl.program_id(1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    live_output, live_row = output < n_outputs, row < n_rows
    k = tl.arange(0, BLOCK_DEPTH)
    x_rows = x_ptr + row[:, None].to(tl.int64) * x_stride + k[None, :]
    gate_rows = gate_weight_ptr + output[:, None].to(tl.int64) * gate_stride + k[None, :]
    up_rows = up_weight_ptr + output[:, None].to(tl.int64) * up_stride + k[None, :]
    gate = tl.zeros((BLOCK_ROWS, BLOCK_OUTPUTS), dtype=tl.float32)
    up = tl.zeros((BLOCK_ROWS, BLOCK_OUTPUTS), dtype=tl.float32)
    for first in range(0, depth, BLOCK_DEPTH):
        live_k = (first + k < depth)[None, :]
        x = tl.load(x_rows + first, mask=live_row[:, None] & live_k, other=0.0)
        gate_weight = tl.load(gate_rows + first, mask=live_output[:, None] & live_k, other=0.0)
        up_weight = tl.load(up_rows + first, mask=live_output[:, None] & live_k, other=0.0)
        gate = tl.dot(x, tl.trans(gate_weight), gate, input_precision="ieee")
        up = tl.dot(x, tl.trans(up_weight), up, input_precision="ieee")
    if HAS_GATE_BIAS:
        gate += tl.load(gate_bias_ptr + output, mask=live_output, other=0.0).to(tl.float32)[None, :]
    if HAS_UP_BIAS:
        up += tl.load(up_bias_ptr + output, mask=live_output, other=0.0).to(tl.float32)[None, :]
    at = row[:, None].to(tl.int64) * n_outputs + output[None, :]
    tl.store(out_ptr + at, gate * tl.sigmoid(gate) * up, mask=live_row[:, None] & live_output[None, :])
