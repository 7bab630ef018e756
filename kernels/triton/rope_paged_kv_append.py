"""Rotary embedding of keys fused with their append to a paged cache, in Triton; the formula is in
csrc/rope_paged_kv_append/rope_paged_kv_append.h."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices
from .paged_kv_append import check_append
from .rope import cos_and_sin, rope_config, turns_of


def rope_paged_kv_append(
    k: torch.Tensor,
    v: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    interleaved: bool = False,
) -> None:
    """Triton twin of warpwatch.kernels.rope_paged_kv_append, for CUDA tensors (CPU ones if interpreted)."""
    check_devices("triton rope_paged_kv_append", k=k, cos=cos, sin=sin)
    capacity = k_pages.shape[2] * block_table.shape[1]
    if cos.shape != sin.shape or cos.shape[1:] != (k.shape[3] // 2,) or len(cos) < capacity:
        raise RuntimeError(
            f"triton rope_paged_kv_append: cos and sin must have head_dim / 2 columns of k {list(k.shape)} and a row "
            f"for each of {capacity} positions, got {list(cos.shape)} and {list(sin.shape)}"
        )
    if cos.stride(-1) != 1 or sin.stride(-1) != 1:
        raise RuntimeError("triton rope_paged_kv_append: the last dimension of cos and sin must be contiguous")
    strides = (cos.stride(0), sin.stride(0))
    _append("triton rope_paged_kv_append", k, v, k_pages, v_pages, block_table, lengths, cos, sin, strides, interleaved)


def rope_computed_paged_kv_append(
    k: torch.Tensor,
    v: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    *,
    base: float = 10000.0,
    interleaved: bool = False,
) -> None:
    """Like rope_paged_kv_append, with angles computed from the positions."""
    turns = turns_of(k.shape[3] // 2, base, k.device)
    operator = "triton rope_computed_paged_kv_append"
    _append(operator, k, v, k_pages, v_pages, block_table, lengths, None, turns, (0, 0), interleaved)


def _append(
    operator: str,
    k: torch.Tensor,
    v: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    cos: torch.Tensor | None,
    sin: torch.Tensor,
    strides: tuple[int, int],
    interleaved: bool,
) -> None:
    """Launch; cos and sin are float32 tables, or cos is None and sin each pair's rotation per position, int64."""
    check_append(operator, k, v, k_pages, v_pages, block_table, lengths)
    if k.shape[3] % 2:
        raise RuntimeError(f"{operator}: head_dim must be even, got k of shape {list(k.shape)}")
    if k.numel() == 0:
        return
    batch, heads, seq, head_dim = k.shape
    config = rope_config(head_dim)
    block_seq = min(config.block_seq, triton.next_power_of_2(seq))
    seq_blocks = triton.cdiv(seq, block_seq)
    with torch.cuda.device_of(k):  # Triton launches on the current device
        _rope_paged_kv_append[(seq_blocks * heads * batch,)](
            k,
            v,
            k_pages,
            v_pages,
            block_table,
            lengths,
            cos,
            sin,
            *k.stride()[:3],
            *v.stride()[:3],
            *k_pages.stride()[:3],
            *v_pages.stride()[:3],
            *strides,
            block_table.stride(0),
            heads,
            seq,
            block_table.shape[1] * k_pages.shape[2],
            head_dim // 2,
            seq_blocks,
            PAGE_SIZE=k_pages.shape[2],
            INTERLEAVED=interleaved,
            BLOCK_SEQ=block_seq,
            BLOCK_HALF=triton.next_power_of_2(head_dim // 2),
            num_warps=config.num_warps,
        )


@triton.jit
def _rope_paged_kv_append(
    k_ptr,
    v_ptr,
    k_pages_ptr,
    v_pages_ptr,
    table_ptr,
    lengths_ptr,
    cos_ptr,
    sin_ptr,
    k_batch_stride,
    k_head_stride,
    k_seq_stride,
    v_batch_stride,
    v_head_stride,
    v_seq_stride,
    k_page_stride,
    k_page_head_stride,
    k_page_row_stride,
    v_page_stride,
    v_page_head_stride,
    v_page_row_stride,
    cos_stride,
    sin_stride,
    table_stride,
    n_heads,
    n_seq,
    n_capacity,
    n_half,
    n_seq_blocks,
    PAGE_SIZE: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    BLOCK_SEQ: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
):
    """Rotate k by the angles of j = lengths[b] - n_seq + s; store it and v in row j % PAGE_SIZE of page j / PAGE_SIZE.

    One program per (sequence block, head, batch); fp32 inside. Without cos_ptr, sin_ptr is each pair's rotation per
    position.
    """
    block = tl.program_id(0)
    head = (block // n_seq_blocks % n_heads).to(tl.int64)
    batch = (block // n_seq_blocks // n_heads).to(tl.int64)
    seq = ((block % n_seq_blocks) * BLOCK_SEQ + tl.arange(0, BLOCK_SEQ)).to(tl.int64)
    place = tl.load(lengths_ptr + batch) - n_seq + seq
    held = (seq < n_seq) & (place >= 0) & (place < n_capacity)
    page = tl.load(table_ptr + batch * table_stride + place // PAGE_SIZE, mask=held, other=0).to(tl.int64)
    row = place % PAGE_SIZE
    k_from = k_ptr + batch * k_batch_stride + head * k_head_stride + seq[:, None] * k_seq_stride
    v_from = v_ptr + batch * v_batch_stride + head * v_head_stride + seq[:, None] * v_seq_stride
    k_to = k_pages_ptr + head * k_page_head_stride + (page * k_page_stride + row * k_page_row_stride)[:, None]
    v_to = v_pages_ptr + head * v_page_head_stride + (page * v_page_stride + row * v_page_row_stride)[:, None]

    pair = tl.arange(0, BLOCK_HALF)
    live = held[:, None] & (pair < n_half)[None, :]
    if cos_ptr is None:
        cos, sin = cos_and_sin(place, tl.load(sin_ptr + pair, mask=pair < n_half, other=0))
    else:
        cos = tl.load(cos_ptr + place[:, None] * cos_stride + pair[None, :], mask=live, other=0.0)
        sin = tl.load(sin_ptr + place[:, None] * sin_stride + pair[None, :], mask=live, other=0.0)

    column = tl.arange(0, 2 * BLOCK_HALF)
    live_row = held[:, None] & (column < 2 * n_half)[None, :]
    v = tl.load(v_from + column[None, :], mask=live_row)
    if INTERLEAVED:
        pairs = tl.load(k_from + column[None, :], mask=live_row, other=0.0).to(tl.float32)
        a, b = tl.split(tl.reshape(pairs, (BLOCK_SEQ, BLOCK_HALF, 2)))
        turned = tl.reshape(tl.join(a * cos - b * sin, b * cos + a * sin), (BLOCK_SEQ, 2 * BLOCK_HALF))
        tl.store(k_to + column[None, :], turned, mask=live_row)
    else:
        a = tl.load(k_from + pair[None, :], mask=live, other=0.0).to(tl.float32)
        b = tl.load(k_from + n_half + pair[None, :], mask=live, other=0.0).to(tl.float32)
        tl.store(k_to + pair[None, :], a * cos - b * sin, mask=live)
        tl.store(k_to + n_half + pair[None, :], b * cos + a * sin, mask=live)
    tl.store(v_to + column[None, :], v, mask=live_row)
