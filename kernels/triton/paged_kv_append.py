"""Append of keys and values to a paged cache in Triton; the layout is in csrc/paged_kv/paged_kv.h."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices
from .kv_append import kv_append_config


def paged_kv_append(
    k: torch.Tensor,
    v: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
) -> None:
    """Triton twin of warpwatch.kernels.paged_kv_append, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    check_append("triton paged_kv_append", k, v, k_pages, v_pages, block_table, lengths)
    if k.numel() == 0:
        return
    batch, heads, tokens, head_dim = k.shape
    page_size = k_pages.shape[2]
    config = kv_append_config(tokens, head_dim)
    token_blocks = triton.cdiv(tokens, config.block_tokens)
    with torch.cuda.device_of(k):  # Triton launches on the current device
        _paged_kv_append[(token_blocks * heads * batch,)](
            k,
            v,
            k_pages,
            v_pages,
            block_table,
            lengths,
            *k.stride()[:3],
            *v.stride()[:3],
            *k_pages.stride()[:3],
            *v_pages.stride()[:3],
            block_table.stride(0),
            heads,
            tokens,
            block_table.shape[1] * page_size,
            head_dim,
            token_blocks,
            PAGE_SIZE=page_size,
            BLOCK_TOKENS=config.block_tokens,
            BLOCK_DIM=triton.next_power_of_2(head_dim),
            num_warps=config.num_warps,
        )


def check_append(
    operator: str,
    k: torch.Tensor,
    v: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
) -> None:
    """Raise RuntimeError for devices, shapes or strides that an append does not support."""
    check_devices(operator, k=k, v=v, k_pages=k_pages, v_pages=v_pages, block_table=block_table, lengths=lengths)
    batch, heads, _, head_dim = k.shape
    pages, _, page_size, _ = k_pages.shape
    wanted = (pages, heads, page_size, head_dim)
    if v.shape != k.shape or k_pages.shape != wanted or v_pages.shape != wanted:
        shapes = [list(tensor.shape) for tensor in (k, v, k_pages, v_pages)]
        raise RuntimeError(f"{operator}: the shapes do not belong together: {shapes}")
    if block_table.shape[:1] != (batch,) or lengths.shape != (batch,):
        raise RuntimeError(
            f"{operator}: block_table and lengths are of {batch} sequences, "
            f"got {list(block_table.shape)} and {list(lengths.shape)}"
        )
    if any(tensor.stride(-1) != 1 for tensor in (k, v, k_pages, v_pages, block_table) if tensor.shape[-1] > 1):
        raise RuntimeError(f"{operator}: the last dimension of every tensor must be contiguous (stride 1)")


@triton.jit
def _paged_kv_append(
    k_ptr,
    v_ptr,
    k_pages_ptr,
    v_pages_ptr,
    table_ptr,
    lengths_ptr,
    k_batch_stride,
    k_head_stride,
    k_token_stride,
    v_batch_stride,
    v_head_stride,
    v_token_stride,
    k_page_stride,
    k_page_head_stride,
    k_page_row_stride,
    v_page_stride,
    v_page_head_stride,
    v_page_row_stride,
    table_stride,
    n_heads,
    n_tokens,
    n_capacity,
    n_dim,
    n_token_blocks,
    PAGE_SIZE: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """pages[table[b, j / PAGE_SIZE], h, j % PAGE_SIZE] = new[b, h, t], j = lengths[b] - n_tokens + t, for k and v.

    One program per (token block, head, batch).
    """
    block = tl.program_id(0)
    head = (block // n_token_blocks % n_heads).to(tl.int64)
    batch = (block // n_token_blocks // n_heads).to(tl.int64)
    token = ((block % n_token_blocks) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)).to(tl.int64)
    place = tl.load(lengths_ptr + batch) - n_tokens + token
    has_place = (token < n_tokens) & (place >= 0) & (place < n_capacity)
    page = tl.load(table_ptr + batch * table_stride + place // PAGE_SIZE, mask=has_place, other=0).to(tl.int64)[:, None]
    row = (place % PAGE_SIZE)[:, None]
    dim = tl.arange(0, BLOCK_DIM)[None, :]
    live = has_place[:, None] & (dim < n_dim)
    from_k = k_ptr + batch * k_batch_stride + head * k_head_stride + token[:, None] * k_token_stride
    from_v = v_ptr + batch * v_batch_stride + head * v_head_stride + token[:, None] * v_token_stride
    k = tl.load(from_k + dim, mask=live)
    v = tl.load(from_v + dim, mask=live)
    k_rows = k_pages_ptr + page * k_page_stride + head * k_page_head_stride + row * k_page_row_stride
    v_rows = v_pages_ptr + page * v_page_stride + head * v_page_head_stride + row * v_page_row_stride
    tl.store(k_rows + dim, k, mask=live)
    tl.store(v_rows + dim, v, mask=live)
