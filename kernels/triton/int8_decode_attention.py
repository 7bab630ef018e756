"""Decode attention over int8 keys and values in Triton; formula and layout are in csrc/int8_decode_attention."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices
from .decode_attention import _combine_parts
from .decode_attention_split import MOST_TOKENS, most_keys, split_keys


def int8_decode_attention(
    q: torch.Tensor,
    k_codes: torch.Tensor,
    v_codes: torch.Tensor,
    k_scales: torch.Tensor,
    v_scales: torch.Tensor,
    lengths: torch.Tensor,
    *,
    scale: float | None = None,
    max_length: int | None = None,
) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.int8_decode_attention, for float16 and bfloat16 queries.

    For CUDA tensors (CPU tensors under TRITON_INTERPRET=1).
    """
    operator = "triton int8_decode_attention"
    check_devices(
        operator, q=q, k_codes=k_codes, v_codes=v_codes, k_scales=k_scales, v_scales=v_scales, lengths=lengths
    )
    batch, heads_q, seq_q, head_dim = q.shape
    _, heads_kv, capacity, _ = k_codes.shape
    if k_codes.shape != (batch, heads_kv, capacity, head_dim) or v_codes.shape != k_codes.shape or heads_q % heads_kv:
        raise RuntimeError(
            f"{operator}: k_codes and v_codes must have shape (batch, heads_kv, capacity, head_dim) beside q "
            f"{list(q.shape)}, heads_kv dividing heads_q, got {list(k_codes.shape)} and {list(v_codes.shape)}"
        )
    if not 1 <= seq_q <= MOST_TOKENS or q.dtype == torch.float32:
        raise RuntimeError(
            f"{operator}: q must be float16 or bfloat16 with 1 to {MOST_TOKENS} new tokens, "
            f"got {q.dtype} of shape {list(q.shape)}"
        )
    if any(x.stride(-1) != 1 for x in (q, k_codes, v_codes, k_scales, v_scales)):
        raise RuntimeError(f"{operator}: the last dimension of q, codes and scales must be contiguous (stride 1)")
    keys = most_keys(operator, max_length, lengths, capacity)
    out = q.new_empty(q.shape)
    if out.numel() == 0:
        return out
    split = split_keys(q, out, heads_kv=heads_kv, keys=keys, row_bytes=head_dim)
    with torch.cuda.device_of(q):  # Triton launches on the current device
        _int8_decode_attention[split.grid](
            q,
            k_codes,
            v_codes,
            k_scales,
            v_scales,
            lengths,
            split.parts,
            split.max_and_sum,
            *q.stride()[:3],
            *k_codes.stride()[:3],
            *v_codes.stride()[:3],
            *k_scales.stride()[:2],
            *v_scales.stride()[:2],
            heads_kv,
            heads_q // heads_kv,
            seq_q,
            capacity,
            split.row_blocks,
            split.rows,
            head_dim,
            (head_dim**-0.5 if scale is None else scale) * math.log2(math.e),
            WHOLE=split.whole,
            BLOCK_ROWS=split.config.block_rows,
            BLOCK_KV=split.config.block_kv,
            BLOCK_DIM=triton.next_power_of_2(head_dim),
            num_warps=split.config.num_warps,
            num_stages=split.config.num_stages,
        )
        split.combine(_int8_combine_parts, 1.0)  # maxima are already in powers of two
    return out


@triton.jit
def _int8_decode_attention(
    q_ptr,
    k_ptr,
    v_ptr,
    k_scales_ptr,
    v_scales_ptr,
    lengths_ptr,
    parts_ptr,
    max_and_sum_ptr,
    q_batch_stride,
    q_head_stride,
    q_row_stride,
    k_batch_stride,
    k_head_stride,
    k_row_stride,
    v_batch_stride,
    v_head_stride,
    v_row_stride,
    k_scale_batch_stride,
    k_scale_head_stride,
    v_scale_batch_stride,
    v_scale_head_stride,
    heads_kv,
    group,
    seq_q,
    capacity,
    row_blocks,
    all_rows,
    head_dim,
    scale_log2,
    WHOLE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_KV: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """One split's softmax(scale q k^T) v with its maximum and sum; if WHOLE, directly into out; fp32 inside.

    One program per (row block of a sequence's key head, split of its keys), as in decode_attention. A key's scale
    multiplies its scores and a value's scale its weights, whose maximum `top` is that of score + log2(scale): so the
    weights in q's dtype are at most 1, whatever the magnitude of the values.
    """
    program = tl.program_id(0)
    part = tl.program_id(1)
    kv = program // row_blocks
    batch = (kv // heads_kv).to(tl.int64)
    head_kv = (kv % heads_kv).to(tl.int64)
    rows = group * seq_q
    row = (program % row_blocks) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    live_row = row < rows
    column = tl.arange(0, BLOCK_DIM)
    live_column = column < head_dim
    q_at = q_ptr + batch * q_batch_stride + (head_kv * group + row // seq_q) * q_head_stride
    q_at += (row % seq_q) * q_row_stride
    q = tl.load(q_at[:, None] + column[None, :], mask=live_row[:, None] & live_column[None, :], other=0.0)

    length = tl.minimum(tl.maximum(tl.load(lengths_ptr + batch), 0), capacity)
    part_keys = tl.cdiv(tl.cdiv(length, tl.num_programs(1)), 16) * 16
    first = part * part_keys
    end = tl.minimum(length, first + part_keys)
    seen = length - seq_q + 1 + row % seq_q
    k_ptr += batch * k_batch_stride + head_kv * k_head_stride
    v_ptr += batch * v_batch_stride + head_kv * v_head_stride
    k_scales_ptr += batch * k_scale_batch_stride + head_kv * k_scale_head_stride
    v_scales_ptr += batch * v_scale_batch_stride + head_kv * v_scale_head_stride

    top = tl.full([BLOCK_ROWS], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_ROWS], tl.float32)
    out = tl.zeros([BLOCK_ROWS, BLOCK_DIM], tl.float32)
    for first_key in tl.range(first, end, BLOCK_KV):
        key = first_key + tl.arange(0, BLOCK_KV)
        live = key < end
        there = live[:, None] & live_column[None, :]
        at = key.to(tl.int64)
        k = tl.load(k_ptr + at[:, None] * k_row_stride + column[None, :], mask=there, other=0)
        v = tl.load(v_ptr + at[:, None] * v_row_stride + column[None, :], mask=there, other=0)
        k_scale = tl.load(k_scales_ptr + at, mask=live, other=0.0)
        v_scale = tl.load(v_scales_ptr + at, mask=live, other=1.0)
        scores = tl.dot(q, tl.trans(k.to(q.dtype))) * (k_scale * scale_log2)[None, :]
        visible = (key[None, :] < seen[:, None]) & live[None, :]
        scores = tl.where(visible, scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores + tl.log2(v_scale)[None, :], 1))
        # A row that has seen no key has the maximum -inf: subtracting 0 gives weights 0, not exp(-inf + inf).
        base = tl.where(new_top == float("-inf"), 0.0, new_top)
        weights = tl.exp2(scores - base[:, None])
        shrink = tl.exp2(top - base)
        total = total * shrink + tl.sum(weights, 1)
        weights *= v_scale[None, :]
        out = tl.dot(weights.to(q.dtype), v.to(q.dtype), out * shrink[:, None])
        top = new_top

    out = out / tl.where(total == 0.0, 1.0, total)[:, None]
    out_row = kv.to(tl.int64) * rows + row
    out_mask = live_row[:, None] & live_column[None, :]
    if WHOLE:
        out_at = parts_ptr + out_row[:, None] * head_dim + column[None, :]
        tl.store(out_at, out.to(parts_ptr.dtype.element_ty), mask=out_mask)
    else:
        part_row = part.to(tl.int64) * all_rows + out_row
        tl.store(parts_ptr + part_row[:, None] * head_dim + column[None, :], out, mask=out_mask)
        tl.store(max_and_sum_ptr + part_row, top, mask=live_row)
        tl.store(max_and_sum_ptr + (tl.num_programs(1) + part).to(tl.int64) * all_rows + out_row, total, mask=live_row)


@triton.jit
def _int8_combine_parts(
    parts_ptr,
    max_and_sum_ptr,
    out_ptr,
    splits,
    all_rows,
    head_dim,
    scale_log2,
    BLOCK_SPLITS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """decode_attention\'s `_combine_parts`, under a name of its own so that its compiled code is tracked separately."""
    _combine_parts(parts_ptr, max_and_sum_ptr, out_ptr, splits, all_rows, head_dim, scale_log2, BLOCK_SPLITS, BLOCK_DIM)
