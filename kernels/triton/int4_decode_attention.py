"""Decode attention over a 4-bit KIVI cache in Triton; formula and layout are in csrc/int4_decode_attention."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices
from .decode_attention import _combine_parts
from .decode_attention_split import MOST_TOKENS, most_keys, split_keys

GROUP = 32


def int4_decode_attention(
    q: torch.Tensor,
    k_codes: torch.Tensor,
    v_codes: torch.Tensor,
    k_scales: torch.Tensor,
    v_scales: torch.Tensor,
    k_window: torch.Tensor,
    v_window: torch.Tensor,
    lengths: torch.Tensor,
    *,
    scale: float | None = None,
    max_length: int | None = None,
) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.int4_decode_attention, for float16 and bfloat16 queries.

    head_dim is 64, 128 or 256. For CUDA tensors (CPU tensors under TRITON_INTERPRET=1).
    """
    operator = "triton int4_decode_attention"
    cache = {
        "k_codes": k_codes,
        "v_codes": v_codes,
        "k_scales": k_scales,
        "v_scales": v_scales,
        "k_window": k_window,
        "v_window": v_window,
    }
    check_devices(operator, q=q, **cache, lengths=lengths)
    batch, heads_q, seq_q, head_dim = q.shape
    _, heads_kv, capacity, _ = k_codes.shape
    if k_codes.shape != (batch, heads_kv, capacity, head_dim // 2) or heads_q % heads_kv or capacity % GROUP:
        raise RuntimeError(
            f"{operator}: k_codes must have shape (batch, heads_kv, capacity, head_dim / 2) beside q {list(q.shape)}, "
            f"heads_kv dividing heads_q and capacity a multiple of {GROUP}, got {list(k_codes.shape)}"
        )
    if not 1 <= seq_q <= MOST_TOKENS or q.dtype == torch.float32 or head_dim not in (64, 128, 256):
        raise RuntimeError(
            f"{operator}: q must be float16 or bfloat16 with 1 to {MOST_TOKENS} new tokens and head_dim 64, 128 or "
            f"256, got {q.dtype} of shape {list(q.shape)}"
        )
    for name, part in cache.items():
        if not part.is_contiguous():
            raise RuntimeError(f"{operator}: {name} must be contiguous, got strides {list(part.stride())}")
    keys = most_keys(operator, max_length, lengths, capacity)
    out = q.new_empty(q.shape)
    if out.numel() == 0:
        return out
    split = split_keys(q, out, heads_kv=heads_kv, keys=keys, row_bytes=head_dim // 2)
    scale_log2 = (head_dim**-0.5 if scale is None else scale) * math.log2(math.e)
    with torch.cuda.device_of(q):  # Triton launches on the current device
        _int4_decode_attention[split.grid](
            q,
            *cache.values(),
            lengths,
            split.parts,
            split.max_and_sum,
            *q.stride()[:3],
            heads_kv,
            heads_q // heads_kv,
            seq_q,
            capacity,
            split.row_blocks,
            split.rows,
            scale_log2,
            WHOLE=split.whole,
            BLOCK_ROWS=split.config.block_rows,
            HEAD_DIM=head_dim,
            num_warps=split.config.num_warps,
            num_stages=split.config.num_stages,
        )
        split.combine(_int4_combine_parts, scale_log2)
    return out


@triton.jit
def _within_half(x):
    """Clamp x to float16's range, as int4_kv_append does; NaN stays NaN."""
    wide = x.to(tl.float32)
    wide = tl.where(wide > 65504.0, 65504.0, tl.where(wide < -65504.0, -65504.0, wide))
    return wide.to(x.dtype)


@triton.jit
def _attend(q_even, q_odd, k_even, k_odd, v_even, v_odd, visible, scale_log2, top, total, out_even, out_odd):
    """Process 32 more keys and values, as even and odd channels; returns the running maximum, sum and outputs."""
    scores = tl.dot(q_odd, tl.trans(k_odd), tl.dot(q_even, tl.trans(k_even)))
    scores = tl.where(visible, scores, float("-inf"))
    new_top = tl.maximum(top, tl.max(scores, 1))
    # The maximum is subtracted before scaling: scaling first would round large scores by more than they
    # differ.
    # A row that has seen no key has the maximum -inf: subtracting 0 gives weights 0, not exp(-inf + inf).
    base = tl.where(new_top == float("-inf"), 0.0, new_top)
    weights = tl.exp2((scores - base[:, None]) * scale_log2)
    shrink = tl.exp2((top - base) * scale_log2)
    total = total * shrink + tl.sum(weights, 1)
    weights = weights.to(q_even.dtype)
    out_even = tl.dot(weights, v_even, out_even * shrink[:, None])
    out_odd = tl.dot(weights, v_odd, out_odd * shrink[:, None])
    return new_top, total, out_even, out_odd


@triton.jit
def _int4_decode_attention(
    q_ptr,
    k_codes_ptr,
    v_codes_ptr,
    k_scales_ptr,
    v_scales_ptr,
    k_window_ptr,
    v_window_ptr,
    lengths_ptr,
    parts_ptr,
    max_and_sum_ptr,
    q_batch_stride,
    q_head_stride,
    q_row_stride,
    heads_kv,
    group,
    seq_q,
    capacity,
    row_blocks,
    all_rows,
    scale_log2,
    WHOLE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
):
    """One split's softmax(scale q k^T) v with its maximum and sum; if WHOLE, directly into out; fp32 inside.

    One program per (row block of a sequence's key head, split of its keys, a multiple of 32), as in decode_attention. A
    byte holds channels 2 i and 2 i + 1, so even and odd channels are computed separately; keys and values are converted
    to q's dtype. Keys past the last whole group of 32 are in the window.
    """
    HALF: tl.constexpr = HEAD_DIM // 2
    program = tl.program_id(0)
    part = tl.program_id(1)
    kv = program // row_blocks
    batch = (kv // heads_kv).to(tl.int64)
    head_kv = (kv % heads_kv).to(tl.int64)
    rows = group * seq_q
    row = (program % row_blocks) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    live_row = row < rows
    byte = tl.arange(0, HALF)
    q_at = q_ptr + batch * q_batch_stride + (head_kv * group + row // seq_q) * q_head_stride
    q_at += (row % seq_q) * q_row_stride
    q_even = tl.load(q_at[:, None] + 2 * byte[None, :], mask=live_row[:, None], other=0.0)
    q_odd = tl.load(q_at[:, None] + 2 * byte[None, :] + 1, mask=live_row[:, None], other=0.0)

    length = tl.minimum(tl.maximum(tl.load(lengths_ptr + batch), 0), capacity)
    part_keys = tl.cdiv(tl.cdiv(length, tl.num_programs(1)), 32) * 32
    first = part * part_keys
    end = tl.minimum(length, first + part_keys)
    whole = length // 32 * 32
    seen = length - seq_q + 1 + row % seq_q
    before = kv.to(tl.int64) * capacity  # keys of all previous heads
    in_group = tl.arange(0, 32)

    top = tl.full([BLOCK_ROWS], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_ROWS], tl.float32)
    out_even = tl.zeros([BLOCK_ROWS, HALF], tl.float32)
    out_odd = tl.zeros([BLOCK_ROWS, HALF], tl.float32)
    for first_key in tl.range(first, tl.minimum(end, whole), 32):
        key = first_key + in_group
        at = before + key
        k_code = tl.load(k_codes_ptr + at[:, None] * HALF + byte[None, :])
        v_code = tl.load(v_codes_ptr + at[:, None] * HALF + byte[None, :])
        k_scale = k_scales_ptr + (before + first_key) // 32 * (2 * HEAD_DIM) + 2 * byte
        k_even = (k_code & 15).to(tl.float32) * tl.load(k_scale)[None, :] + tl.load(k_scale + HEAD_DIM)[None, :]
        k_odd = (k_code >> 4).to(tl.float32) * tl.load(k_scale + 1)[None, :] + tl.load(k_scale + HEAD_DIM + 1)[None, :]
        v_scale_at = v_scales_ptr + at[:, None] * (HEAD_DIM // 16) + (byte // 16 * 2)[None, :]
        v_scale = tl.load(v_scale_at).to(tl.float32)
        v_zero = tl.load(v_scale_at + 1).to(tl.float32)
        v_even = (v_code & 15).to(tl.float32) * v_scale + v_zero
        v_odd = (v_code >> 4).to(tl.float32) * v_scale + v_zero
        top, total, out_even, out_odd = _attend(
            q_even,
            q_odd,
            k_even.to(q_even.dtype),
            k_odd.to(q_even.dtype),
            v_even.to(q_even.dtype),
            v_odd.to(q_even.dtype),
            key[None, :] < seen[:, None],
            scale_log2,
            top,
            total,
            out_even,
            out_odd,
        )
    if (first <= whole) & (whole < end):
        key = whole + in_group
        live = (key < end)[:, None]
        at = (kv.to(tl.int64) * 32 + in_group)[:, None] * HEAD_DIM + 2 * byte[None, :]
        top, total, out_even, out_odd = _attend(
            q_even,
            q_odd,
            _within_half(tl.load(k_window_ptr + at, mask=live, other=0.0)),
            _within_half(tl.load(k_window_ptr + at + 1, mask=live, other=0.0)),
            _within_half(tl.load(v_window_ptr + at, mask=live, other=0.0)),
            _within_half(tl.load(v_window_ptr + at + 1, mask=live, other=0.0)),
            key[None, :] < seen[:, None],
            scale_log2,
            top,
            total,
            out_even,
            out_odd,
        )

    normalizer = 1.0 / tl.where(total == 0.0, 1.0, total)[:, None]
    out_row = kv.to(tl.int64) * rows + row
    if WHOLE:
        out_at = parts_ptr + out_row[:, None] * HEAD_DIM + 2 * byte[None, :]
        tl.store(out_at, (out_even * normalizer).to(parts_ptr.dtype.element_ty), mask=live_row[:, None])
        tl.store(out_at + 1, (out_odd * normalizer).to(parts_ptr.dtype.element_ty), mask=live_row[:, None])
    else:
        part_row = part.to(tl.int64) * all_rows + out_row
        out_at = parts_ptr + part_row[:, None] * HEAD_DIM + 2 * byte[None, :]
        tl.store(out_at, out_even * normalizer, mask=live_row[:, None])
        tl.store(out_at + 1, out_odd * normalizer, mask=live_row[:, None])
        tl.store(max_and_sum_ptr + part_row, top, mask=live_row)
        tl.store(max_and_sum_ptr + (tl.num_programs(1) + part).to(tl.int64) * all_rows + out_row, total, mask=live_row)


@triton.jit
def _int4_combine_parts(
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
