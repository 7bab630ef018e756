"""Attention of a few new tokens over a cache of keys and values that lies in pages."""

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
    two from 16 to 256; block_table (batch, pages of a sequence) int32: key j of sequence b is row j % page_size of page
    block_table[b, j // page_size]; lengths (batch) int32: keys of each sequence, the new tokens' own among them and
    last, taken as 0 .. page_size * pages of a sequence. Entries and rows behind a sequence's last key are not read. The
    entries before must be pages that there are: on a CPU others are refused, on a GPU nobody looks at them first.
    Dtypes, head dims, alignment, masks, scale, max_length and graphs as in decode_attention.
    Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention" (SOSP 2023).
    Forward only: there is no gradient.
    Raises RuntimeError with a sentence for a shape, dtype, device or stride it does not take.
    """
    return _paged_decode_attention(q, k_pages, v_pages, block_table, lengths, scale, max_length)


_paged_decode_attention = load_operator("paged_decode_attention")
