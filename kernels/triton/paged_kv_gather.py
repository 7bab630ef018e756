"""Gather of keys and values from a paged cache in Triton; the layout is in csrc/paged_kv/paged_kv.h."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices
from .kv_append import kv_append_config


def paged_kv_gather(
    k_pages: torch.Tensor, v_pages: torch.Tensor, block_table: torch.Tensor, lengths: torch.Tensor, seq: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Triton twin of warpwatch.kernels.paged_kv_gather, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    operator = "triton paged_kv_gather"
    check_devices(operator, k_pages=k_pages, v_pages=v_pages, block_table=block_table, lengths=lengths)
    _, heads, page_size, head_dim = k_pages.shape
    batch, each = block_table.shape
    if v_pages.shape != k_pages.shape or lengths.shape != (batch,):
        shapes = [list(tensor.shape) for tensor in (k_pages, v_pages, block_table, lengths)]
        raise RuntimeError(f"{operator}: the shapes do not belong together: {shapes}")
    if not 0 <= seq <= each * page_size:
        raise RuntimeError(f"{operator}: seq must be 0 to {each * page_size}, got {seq}")
    if any(tensor.stride(-1) != 1 for tensor in (k_pages, v_pages, block_table) if tensor.shape[-1] > 1):
        raise RuntimeError(f"{operator}: the last dimension of every tensor must be contiguous (stride 1)")
    k, v = (k_pages.new_empty((batch, heads, seq, head_dim)) for _ in range(2))
    if k.numel() == 0:
        return k, v
    config = kv_append_config(seq, head_dim)
    token_blocks = triton.cdiv(seq, config.block_tokens)
    with torch.cuda.device_of(k):  # Triton launches on the current device
        _paged_kv_gather[(token_blocks * heads * batch,)](
            k_pages,
            v_pages,
            block_table,
            lengths,
            k,
            v,
            *k_pages.stride()[:3],
            *v_pages.stride()[:3],
            block_table.stride(0),
            heads,
            seq,
            head_dim,
            token_blocks,
            PAGE_SIZE=page_size,
            BLOCK_TOKENS=config.block_tokens,
            BLOCK_DIM=triton.next_power_of_2(head_dim),
            num_warps=config.num_warps,
        )
    return k, v


@triton.jit
def _paged_kv_gather(
    k_pages_ptr,
    v_pages_ptr,
    table_ptr,
    lengths_ptr,
    k_ptr,
    v_ptr,
    k_page_stride,
    k_page_head_stride,
    k_page_row_stride,
    v_page_stride,
    v_page_head_stride,
    v_page_row_stride,
    table_stride,
    n_heads,
    n_seq,
    n_dim,
    n_token_blocks,
    PAGE_SIZE: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """out[b, h, j] = pages[table[b, j / PAGE_SIZE], h, j % PAGE_SIZE], 0 from lengths[b] on, for k and v; contiguous.

    One program per (token block, head, batch).
    """
    block = tl.program_id(0)
    head = (block // n_token_blocks % n_heads).to(tl.int64)
    batch = (block // n_token_blocks // n_heads).to(tl.int64)
    place = ((block % n_token_blocks) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)).to(tl.int64)
    held = (place < n_seq) & (place < tl.load(lengths_ptr + batch))
    page = tl.load(table_ptr + batch * table_stride + place // PAGE_SIZE, mask=held, other=0).to(tl.int64)[:, None]
    row = (place % PAGE_SIZE)[:, None]
    dim = tl.arange(0, BLOCK_DIM)[None, :]
    live = held[:, None] & (dim < n_dim)
    k_rows = k_pages_ptr + page * k_page_stride + head * k_page_head_stride + row * k_page_row_stride
    v_rows = v_pages_ptr + page * v_page_stride + head * v_page_head_stride + row * v_page_row_stride
    k = tl.load(k_rows + dim, mask=live, other=0.0)
    v = tl.load(v_rows + dim, mask=live, other=0.0)
    to = ((batch * n_heads + head) * n_seq + place[:, None]) * n_dim + dim
    written = (place < n_seq)[:, None] & (dim < n_dim)
    tl.store(k_ptr + to, k, mask=written)
    tl.store(v_ptr + to, v, mask=written)
