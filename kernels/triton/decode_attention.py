"""Decode attention in Triton; the formula is in csrc/decode_attention/decode_attention.h."""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices
from .attention_checks import check_rows
from .decode_attention_split import MOST_TOKENS, most_keys, split_keys


def decode_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    max_length: int | None = None,
) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.decode_attention, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    others = {} if lengths is None else {"lengths": lengths}
    check_devices("triton decode_attention", q=q, k=k, v=v, **others)
    if k.shape != v.shape or k.shape[0] != q.shape[0]:
        raise RuntimeError(
            f"triton decode_attention: k and v must have shape (batch, heads_kv, capacity, head_dim) beside q "
            f"{list(q.shape)}, got {list(k.shape)} and {list(v.shape)}"
        )
    functions = (_decode_attention, _combine_parts)
    return launch("triton decode_attention", functions, q, k, v, lengths, None, k.shape[2], 0, scale, max_length)


def launch(
    operator: str,
    functions: tuple[Any, Any],
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor | None,
    block_table: torch.Tensor | None,
    capacity: int,
    page_size: int,
    scale: float | None,
    max_length: int | None,
) -> torch.Tensor:
    """Launch both functions on k and v: (batch, heads_kv, capacity, head_dim) if page_size is 0, else pages.

    Raises RuntimeError for unsupported heads, head_dim, strides, number of tokens or max_length.
    """
    attend, combine = functions
    _, heads_q, seq_q, head_dim = q.shape
    heads_kv = k.shape[1]
    if heads_kv < 1 or heads_q % heads_kv or k.shape[3] != head_dim:
        raise RuntimeError(
            f"{operator}: heads_kv must divide heads_q and head_dim be the same, got q {list(q.shape)} and "
            f"k {list(k.shape)}"
        )
    if not 1 <= seq_q <= MOST_TOKENS:
        raise RuntimeError(f"{operator}: q must have 1 to {MOST_TOKENS} new tokens (seq_q), got shape {list(q.shape)}")
    check_rows(operator, q, k, v)
    keys = most_keys(operator, max_length, lengths, capacity)
    out = q.new_empty(q.shape)
    if out.numel() == 0:
        return out
    split = split_keys(q, out, heads_kv=heads_kv, keys=keys, row_bytes=head_dim * q.element_size())
    scale_log2 = (head_dim**-0.5 if scale is None else scale) * math.log2(math.e)
    with torch.cuda.device_of(q):  # Triton launches on the current device
        attend[split.grid](
            q,
            k,
            v,
            lengths,
            block_table,
            split.parts,
            split.max_and_sum,
            *q.stride()[:3],
            *k.stride()[:3],
            *v.stride()[:3],
            0 if block_table is None else block_table.stride(0),
            heads_kv,
            heads_q // heads_kv,
            seq_q,
            capacity,
            split.row_blocks,
            split.rows,
            head_dim,
            scale_log2,
            PAGE_SIZE=page_size,
            WHOLE=split.whole,
            PRECISION="ieee" if q.dtype == torch.float32 else "tf32",
            BLOCK_ROWS=split.config.block_rows,
            BLOCK_KV=split.config.block_kv,
            BLOCK_DIM=triton.next_power_of_2(head_dim),
            num_warps=split.config.num_warps,
            num_stages=split.config.num_stages,
        )
        split.combine(combine, scale_log2)
    return out


@triton.jit
def _cache_rows(base_ptr, pages_ptr, key, live, page_stride, row_stride, PAGE_SIZE: tl.constexpr):
    """Offsets of the rows of keys (or values) `key`; PAGE_SIZE 0 is a contiguous cache."""
    if PAGE_SIZE == 0:
        rows = base_ptr + key.to(tl.int64) * row_stride
    else:
        page = tl.load(pages_ptr + key // PAGE_SIZE, mask=live, other=0).to(tl.int64)
        rows = base_ptr + page * page_stride + (key % PAGE_SIZE).to(tl.int64) * row_stride
    return rows


@triton.jit
def _decode_attention(
    q_ptr,
    k_ptr,
    v_ptr,
    lengths_ptr,
    table_ptr,
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
    table_stride,
    heads_kv,
    group,
    seq_q,
    capacity,
    row_blocks,
    all_rows,
    head_dim,
    scale_log2,
    PAGE_SIZE: tl.constexpr,
    WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_KV: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """One split's softmax(scale q k^T) v with its maximum and sum; if WHOLE, directly into out; fp32 inside.

    One program per (row block of a sequence's key head, split of its keys). Row r is token r % seq_q of the group's
    head r // seq_q. With PAGE_SIZE, the batch stride of k and v is that of a page.
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

    length = capacity
    if lengths_ptr is not None:
        length = tl.minimum(tl.maximum(tl.load(lengths_ptr + batch), 0), capacity)
    part_keys = tl.cdiv(tl.cdiv(length, tl.num_programs(1)), 16) * 16
    first = part * part_keys
    end = tl.minimum(length, first + part_keys)
    seen = length - seq_q + 1 + row % seq_q

    pages_ptr = table_ptr
    k_ptr += head_kv * k_head_stride
    v_ptr += head_kv * v_head_stride
    if PAGE_SIZE == 0:
        k_ptr += batch * k_batch_stride
        v_ptr += batch * v_batch_stride
    else:
        pages_ptr += batch * table_stride

    top = tl.full([BLOCK_ROWS], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_ROWS], tl.float32)
    out = tl.zeros([BLOCK_ROWS, BLOCK_DIM], tl.float32)
    for first_key in tl.range(first, end, BLOCK_KV):
        key = first_key + tl.arange(0, BLOCK_KV)
        live = key < end
        there = live[:, None] & live_column[None, :]
        k_at = _cache_rows(k_ptr, pages_ptr, key, live, k_batch_stride, k_row_stride, PAGE_SIZE)
        v_at = _cache_rows(v_ptr, pages_ptr, key, live, v_batch_stride, v_row_stride, PAGE_SIZE)
        k = tl.load(k_at[:, None] + column[None, :], mask=there, other=0.0)
        v = tl.load(v_at[:, None] + column[None, :], mask=there, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
        visible = (key[None, :] < seen[:, None]) & live[None, :]
        scores = tl.where(visible, scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        # The maximum is subtracted before scaling: scaling first would round large scores by more than they
        # differ.
        # A row that has seen no key has the maximum -inf: subtracting 0 gives weights 0, not exp(-inf + inf).
        base = tl.where(new_top == float("-inf"), 0.0, new_top)
        weights = tl.exp2((scores - base[:, None]) * scale_log2)
        shrink = tl.exp2((top - base) * scale_log2)
        total = total * shrink + tl.sum(weights, 1)
        out = tl.dot(weights.to(v.dtype), v, out * shrink[:, None], input_precision=PRECISION)
        top = new_top

    out = out / tl.where(total == 0.0, 1.0, total)[:, None]
    out_row = kv.to(tl.int64) * rows + row
    out_mask = live_row[:, None] & live_column[None, :]
    if WHOLE:
        at = parts_ptr + out_row[:, None] * head_dim + column[None, :]
        tl.store(at, out.to(parts_ptr.dtype.element_ty), mask=out_mask)
    else:
        part_row = part.to(tl.int64) * all_rows + out_row
        tl.store(parts_ptr + part_row[:, None] * head_dim + column[None, :], out, mask=out_mask)
        tl.store(max_and_sum_ptr + part_row, top, mask=live_row)
        tl.store(max_and_sum_ptr + (tl.num_programs(1) + part).to(tl.int64) * all_rows + out_row, total, mask=live_row)


@triton.jit
def _combine_parts(
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
    """out[row] = sum over parts of weight part / sum over parts of weight; one program per row.

    A part's weight is 2^(scale_log2 (maximum - top)) sum. Maxima and sums are stored separately: in one log-sum-exp of
    large scores, fp32 has no bits left for the sums.
    """
    row = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, BLOCK_SPLITS)
    column = tl.arange(0, BLOCK_DIM)
    live = split < splits
    at = split.to(tl.int64) * all_rows + row
    maxima = tl.load(max_and_sum_ptr + at, mask=live, other=float("-inf"))
    sums = tl.load(max_and_sum_ptr + (splits + split).to(tl.int64) * all_rows + row, mask=live, other=0.0)
    top = tl.max(maxima, 0)
    weights = tl.exp2((maxima - tl.where(top == float("-inf"), 0.0, top)) * scale_log2) * sums
    mask = live[:, None] & (column < head_dim)[None, :]
    parts = tl.load(parts_ptr + at[:, None] * head_dim + column[None, :], mask=mask, other=0.0)
    total = tl.sum(weights, 0)
    out = tl.sum(weights[:, None] * parts, 0) / tl.where(total == 0.0, 1.0, total)
    tl.store(out_ptr + row * head_dim + column, out.to(out_ptr.dtype.element_ty), mask=column < head_dim)
