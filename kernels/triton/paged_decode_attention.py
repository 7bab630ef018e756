"""Decode attention over a paged cache in Triton: decode_attention's kernels, with a block table."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices
from .decode_attention import _combine_parts, _decode_attention, launch


def paged_decode_attention(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    *,
    scale: float | None = None,
    max_length: int | None = None,
) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.paged_decode_attention, for CUDA tensors (CPU ones if interpreted)."""
    check_devices(
        "triton paged_decode_attention", q=q, k_pages=k_pages, v_pages=v_pages, block_table=block_table, lengths=lengths
    )
    if k_pages.shape != v_pages.shape or len(block_table) != len(q) or lengths.shape != (len(q),):
        raise RuntimeError(
            f"triton paged_decode_attention: k_pages and v_pages must have one shape, block_table and lengths one row "
            f"a sequence of q {list(q.shape)}, got {list(k_pages.shape)}, {list(v_pages.shape)}, "
            f"{list(block_table.shape)} and {list(lengths.shape)}"
        )
    page_size = k_pages.shape[2]
    capacity = page_size * block_table.shape[1]
    operator = "triton paged_decode_attention"
    functions = (_paged_decode_attention, _paged_combine_parts)
    return launch(
        operator, functions, q, k_pages, v_pages, lengths, block_table, capacity, page_size, scale, max_length
    )


@triton.jit
def _paged_decode_attention(
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
    """decode_attention's `_decode_attention`, under its own name so that its compiled code is tracked separately."""
    _decode_attention(
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
        PAGE_SIZE,
        WHOLE,
        PRECISION,
        BLOCK_ROWS,
        BLOCK_KV,
        BLOCK_DIM,
    )


@triton.jit
def _paged_combine_parts(
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
    """decode_attention\'s `_combine_parts`, likewise."""
    _combine_parts(parts_ptr, max_and_sum_ptr, out_ptr, splits, all_rows, head_dim, scale_log2, BLOCK_SPLITS, BLOCK_DIM)
