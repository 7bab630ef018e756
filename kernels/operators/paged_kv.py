"""Keys and values into the pages of a cache, and out of them."""

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
    """Write the new tokens' keys and values into their pages, in place.

    k, v (batch, heads_kv, seq, head_dim); k_pages, v_pages (pages, heads_kv, page_size, head_dim) in the same dtype,
    float16, bfloat16 or float32, page_size a power of two from 16 to 256; block_table (batch, pages of a sequence) and
    lengths (batch) int32 as paged_decode_attention takes them: lengths count the new tokens already, so that row i goes
    to position lengths[b] - seq + i. What falls before position 0 or behind the table's last page is left out. The
    entries of those positions must be pages that there are: on a CPU others are refused, on a GPU nobody looks at them
    first. The pages must not overlap each other, themselves, nor k or v. On a GPU all rows are whole 16-byte vectors on
    16-byte boundaries.
    Raises RuntimeError with a sentence for a shape, dtype, device or stride it does not take.
    """
    _paged_kv_append(k, v, k_pages, v_pages, block_table, lengths)


def paged_kv_gather(
    k_pages: torch.Tensor, v_pages: torch.Tensor, block_table: torch.Tensor, lengths: torch.Tensor, seq: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of positions 0 .. seq - 1 as (batch, heads_kv, seq, head_dim), zeros from each length on.

    Arguments as of paged_kv_append; seq is at most what the table has room for.
    Raises RuntimeError with a sentence for a shape, dtype, device or stride it does not take.
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
