"""New keys turned by their positions, and written into the pages of a cache with their values."""

from __future__ import annotations

import torch

from ..extension import load_operator


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
    """What rope of k and paged_kv_append of it and v do, in one launch that reads and writes each row once.

    Arguments of both: row i of k stands at position lengths[b] - seq + i, and is turned by that row of cos and sin
    (positions, head_dim / 2) in float32, which have one for each position that block_table has room for. k and v stay
    as they are; head_dim is even. On a GPU half a row, too, is whole 16-byte vectors, and rows of the tables start on
    16-byte boundaries.
    Su et al., "RoFormer" (arXiv:2104.09864, 2021). Raises RuntimeError as rope and paged_kv_append do.
    """
    _rope_paged_kv_append(k, v, k_pages, v_pages, block_table, lengths, cos, sin, interleaved)


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
    """As rope_paged_kv_append, with angles computed from the positions, as rope_computed does; head_dim 512 at most."""
    _rope_computed_paged_kv_append(k, v, k_pages, v_pages, block_table, lengths, base, interleaved)


_rope_paged_kv_append = load_operator("rope_paged_kv_append")
_rope_computed_paged_kv_append = load_operator("rope_computed_paged_kv_append")
