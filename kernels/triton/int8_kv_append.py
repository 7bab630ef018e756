"""Append of keys and values to an int8 cache in Triton; the formula is in csrc/int8_kv/int8_kv.h."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices

# Reasoned, not tuned on any chip yet: 4096 elements per program, four 16-byte loads per thread for 2-byte elements.
_ELEMENTS = 4096


def int8_kv_append(
    k: torch.Tensor,
    v: torch.Tensor,
    k_codes: torch.Tensor,
    v_codes: torch.Tensor,
    k_scales: torch.Tensor,
    v_scales: torch.Tensor,
    lengths: torch.Tensor,
) -> None:
    """Triton twin of warpwatch.kernels.int8_kv_append, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    operator = "triton int8_kv_append"
    check_devices(
        operator, k=k, v=v, k_codes=k_codes, v_codes=v_codes, k_scales=k_scales, v_scales=v_scales, lengths=lengths
    )
    batch, heads, seq, head_dim = k.shape
    capacity = k_codes.shape[2]
    wanted = (batch, heads, capacity)
    codes_fit = k_codes.shape == v_codes.shape == (*wanted, head_dim)
    scales_fit = k_scales.shape == v_scales.shape == wanted
    if v.shape != k.shape or not codes_fit or not scales_fit or lengths.shape != (batch,):
        shapes = [list(tensor.shape) for tensor in (k, v, k_codes, v_codes, k_scales, v_scales, lengths)]
        raise RuntimeError(f"{operator}: the shapes do not belong together: {shapes}")
    if any(x.stride(-1) != 1 for x in (k, v, k_codes, v_codes, k_scales, v_scales) if x.shape[-1] > 1):
        raise RuntimeError(f"{operator}: the last dimension of every tensor must be contiguous (stride 1)")
    if k.numel() == 0:
        return
    block_dim = triton.next_power_of_2(head_dim)
    block_rows = min(max(1, _ELEMENTS // block_dim), triton.next_power_of_2(seq))
    row_blocks = triton.cdiv(seq, block_rows)
    with torch.cuda.device_of(k):  # Triton launches on the current device
        _int8_kv_append[(row_blocks * heads * batch,)](
            k,
            v,
            k_codes,
            v_codes,
            k_scales,
            v_scales,
            lengths,
            *k.stride()[:3],
            *v.stride()[:3],
            *k_codes.stride()[:3],
            *v_codes.stride()[:3],
            *k_scales.stride()[:2],
            *v_scales.stride()[:2],
            heads,
            seq,
            capacity,
            head_dim,
            row_blocks,
            BLOCK_ROWS=block_rows,
            BLOCK_DIM=block_dim,
            num_warps=4,
            enable_fp_fusion=False,  # x * inverse is rounded before the conversion, as in CUDA C++
        )


@triton.jit
def _quantized(x_at, live):
    """Codes of the rows at x_at, and each row's scale = max(2^-100, max |x|) / 127; a NaN makes its row's scale NaN."""
    x = tl.load(x_at, mask=live, other=0.0).to(tl.float32)
    any_nan = tl.max((x != x).to(tl.int32), axis=1)
    largest = tl.maximum(tl.max(tl.where(x == x, tl.abs(x), 0.0), axis=1), 7.888609052210118e-31)
    largest = tl.where(any_nan > 0, float("nan"), largest)
    steps = x * tl.div_rn(127.0, largest)[:, None]
    # Adding and subtracting 1.5 * 2^23 rounds to the nearest integer, ties to even.
    steps = (steps + 12582912.0) - 12582912.0
    steps = tl.where(steps == steps, tl.minimum(tl.maximum(steps, -127.0), 127.0), 0.0)
    return steps.to(tl.int8), tl.div_rn(largest, 127.0)


@triton.jit
def _int8_kv_append(
    k_ptr,
    v_ptr,
    k_codes_ptr,
    v_codes_ptr,
    k_scales_ptr,
    v_scales_ptr,
    lengths_ptr,
    k_batch_stride,
    k_head_stride,
    k_row_stride,
    v_batch_stride,
    v_head_stride,
    v_row_stride,
    k_codes_batch_stride,
    k_codes_head_stride,
    k_codes_row_stride,
    v_codes_batch_stride,
    v_codes_head_stride,
    v_codes_row_stride,
    k_scales_batch_stride,
    k_scales_head_stride,
    v_scales_batch_stride,
    v_scales_head_stride,
    n_heads,
    n_seq,
    n_capacity,
    n_dim,
    n_row_blocks,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """codes[b, h, j] and scales[b, h, j] of row i of k and of v, with j = lengths[b] - n_seq + i.

    One program per (row block, head, batch).
    """
    block = tl.program_id(0)
    head = (block // n_row_blocks % n_heads).to(tl.int64)
    batch = (block // n_row_blocks // n_heads).to(tl.int64)
    row = ((block % n_row_blocks) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)).to(tl.int64)
    place = tl.load(lengths_ptr + batch) - n_seq + row
    held = (row < n_seq) & (place >= 0) & (place < n_capacity)
    dim = tl.arange(0, BLOCK_DIM)[None, :]
    live = held[:, None] & (dim < n_dim)

    k_at = k_ptr + batch * k_batch_stride + head * k_head_stride + row[:, None] * k_row_stride + dim
    codes, scales = _quantized(k_at, live)
    to = k_codes_ptr + batch * k_codes_batch_stride + head * k_codes_head_stride
    tl.store(to + place[:, None] * k_codes_row_stride + dim, codes, mask=live)
    tl.store(k_scales_ptr + batch * k_scales_batch_stride + head * k_scales_head_stride + place, scales, mask=held)

    v_at = v_ptr + batch * v_batch_stride + head * v_head_stride + row[:, None] * v_row_stride + dim
    codes, scales = _quantized(v_at, live)
    to = v_codes_ptr + batch * v_codes_batch_stride + head * v_codes_head_stride
    tl.store(to + place[:, None] * v_codes_row_stride + dim, codes, mask=live)
    tl.store(v_scales_ptr + batch * v_scales_batch_stride + head * v_scales_head_stride + place, scales, mask=held)
