"""Append of keys and values to the pages of a cache, and their gathering."""

from __future__ import annotations

from typing import Any

import torch

from ..extension import load_operator


def paged_kv_append(
    k: torch.Tensor,
    v: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
) -> None:
    """Write the new tokens' keys and values to their pages, in place.

    k, v (batch, heads_kv, seq, head_dim); k_pages, v_pages (pages, heads_kv, page_size, head_dim) in the same dtype,
    float16, bfloat16 or float32, page_size a power of two from 16 to 256; block_table (batch, pages per sequence) and
    lengths (batch) int32 as in paged_decode_attention: lengths include the new tokens, so row i is stored at position
    lengths[b] - seq + i. Positions below 0 or past the table's last page are skipped. The entries of the other
    positions must be valid pages: a CPU checks them, a GPU does not. The pages must not overlap each other, themselves,
    nor k or v. On a GPU all rows are whole 16-byte vectors on 16-byte boundaries.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    _paged_kv_append(k, v, k_pages, v_pages, block_table, lengths)


def paged_kv_gather(
    k_pages: torch.Tensor, v_pages: torch.Tensor, block_table: torch.Tensor, lengths: torch.Tensor, seq: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of positions 0 .. seq - 1 as (batch, heads_kv, seq, head_dim), zeros from each length on.

    Arguments as in paged_kv_append; seq is at most the table's capacity.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    k, v = _paged_kv_gather(k_pages, v_pages, block_table, lengths, seq)
    return k, v


def _gathered(
    k_pages: torch.Tensor, block_table: torch.Tensor, seq: int, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (block_table.shape[0], k_pages.shape[1], seq, k_pages.shape[3])
    return k_pages.new_empty(shape), k_pages.new_empty(shape)


_paged_kv_append = load_operator("paged_kv_append")
_paged_kv_gather = load_operator("paged_kv_gather", result=_gathered)
