"""Attention of a few new tokens over a paged KV cache."""

from __future__ import annotations

import torch

from ..extension import load_operator


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
    """decode_attention over pages: 1 to 8 new tokens, causal among them; a new, contiguous tensor like q.

    q (batch, heads_q, seq_q, head_dim); k_pages, v_pages (pages, heads_kv, page_size, head_dim), page_size a power of
    two from 16 to 256; block_table (batch, pages per sequence) int32: key j of sequence b is row j % page_size of page
    block_table[b, j // page_size]; lengths (batch) int32, clamped to 0 .. page_size * pages per sequence: the number of
    keys of each sequence, of which the last are the new tokens' own. Entries and rows past a sequence's last key are
    not read. The entries before must be valid pages: a CPU checks them, a GPU does not.
    Dtypes, head dims, alignment, masks, scale, max_length and CUDA graphs as in decode_attention.
    Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention" (SOSP 2023).
    Forward only: there is no gradient.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    return _paged_decode_attention(q, k_pages, v_pages, block_table, lengths, scale, max_length)


_paged_decode_attention = load_operator("paged_decode_attention")
