"""FlashAttention as a baseline: version 3 where a package with it is installed, else the package flash-attn."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warpbench.lazy import torch

from .warpwatch_operators import library


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashAttention:
    """Functions over q (batch, seq, heads, head_dim) and keys and values of the same layout, or pages of it."""

    dense: Callable[..., torch.Tensor]  # (q, k, v, causal=, window_size=)
    packed: Callable[..., torch.Tensor]  # (q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal=)
    with_cache: Callable[..., torch.Tensor]  # (q, k, v, cache_seqlens=, page table, causal=)
    page_table: str  # the name of its argument of with_cache
    page_size: int  # pages have a multiple of it
    backend: str


@functools.cache
def flash_attention_package() -> FlashAttention:
    """The newest FlashAttention that is installed. Raises ImportError where there is none."""
    if torch.cuda.get_device_capability() == (9, 0):  # version 3 is written for Hopper
        for load in (_flash_attn_3, _sglang_kernel):
            try:
                return load()
            except ImportError:
                continue
    from flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache

    return FlashAttention(
        dense=flash_attn_func,
        packed=flash_attn_varlen_func,
        with_cache=flash_attn_with_kvcache,
        page_table="block_table",
        page_size=256,
        backend=library("flash-attn"),
    )


def _flash_attn_3() -> FlashAttention:
    from flash_attn_interface import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache

    return FlashAttention(
        dense=_first(flash_attn_func),
        packed=_first(flash_attn_varlen_func),
        with_cache=flash_attn_with_kvcache,
        page_table="page_table",
        page_size=1,
        backend=library("flash-attn-3"),
    )


def _sglang_kernel() -> FlashAttention:
    """FlashAttention 3 in sglang-kernel, which has no function for dense inputs: they are a full cache."""
    from sgl_kernel.flash_attn import flash_attn_varlen_func, flash_attn_with_kvcache

    return FlashAttention(
        dense=flash_attn_with_kvcache,
        packed=flash_attn_varlen_func,
        with_cache=flash_attn_with_kvcache,
        page_table="page_table",
        page_size=1,
        backend=f"FlashAttention 3 of {library('sglang-kernel')}",
    )


def _first(function: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    """Without the log-sum-exp, which early releases of flash-attn-3 return with the output."""

    def call(*arguments: Any, **options: Any) -> torch.Tensor:
        out = function(*arguments, **options)
        return out[0] if isinstance(out, tuple) else out

    return call
