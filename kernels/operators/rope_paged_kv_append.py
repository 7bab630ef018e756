"""Rotary embedding of new keys, fused with their append to a paged cache."""

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
    """rope of k, then paged_kv_append of it and v, in one launch that reads and writes each row once.

    Arguments of both: row i of k is at position lengths[b] - seq + i and is rotated by that row of cos and sin
    (positions, head_dim / 2) in float32, which have a row for each position in block_table's capacity. k and v are not
    modified; head_dim is even. On a GPU half a row must also be whole 16-byte vectors, and rows of the tables start on
    16-byte boundaries.
    Su et al., "RoFormer" (arXiv:2104.09864, 2021). Raises RuntimeError as rope and paged_kv_append
    do.
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
    """Like rope_paged_kv_append, with angles computed from the positions, as in rope_computed; head_dim at most 512."""
    _rope_computed_paged_kv_append(k, v, k_pages, v_pages, block_table, lengths, base, interleaved)


_rope_paged_kv_append = load_operator("rope_paged_kv_append")
_rope_computed_paged_kv_append = load_operator("rope_computed_paged_kv_append")
