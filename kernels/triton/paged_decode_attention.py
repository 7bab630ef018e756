"""Decode attention over pages in Triton: decode_attention's kernels, which find the pages in the block table."""

from __future__ import annotations

import torch

from ..operators.devices import check_devices
from .decode_attention import launch


def paged_decode_attention(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    *,
    scale: float | None = None,
) -> torch.Tensor:
    """What warpwatch.kernels.paged_decode_attention computes, on CUDA tensors (CPU ones under TRITON_INTERPRET=1)."""
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
    return launch(
        "triton paged_decode_attention", q, k_pages, v_pages, lengths, block_table, capacity, page_size, scale
    )
