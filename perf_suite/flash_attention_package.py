"""FlashAttention as a baseline: version 3 where a package with it is installed, else the package flash-attn."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warpbench import UnavailableError
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
    """The first of these FlashAttentions that is installed. Raises ImportError where there is none."""
    if torch.cuda.get_device_capability() == (9, 0):  # version 3 is written for Hopper
        for load in (_flash_attn_3, _sglang_kernel, _flash_attn_2, _vllm):  # vLLM's last: it does not take all inputs
            try:
                return load()
            except ImportError:
                continue
    return _flash_attn_2()


def _flash_attn_2() -> FlashAttention:
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


def _vllm() -> FlashAttention:
    """FlashAttention 3 in vLLM, built for packed sequences and for pages alone; a single sequence is packed as it is.

    Raises ImportError where vLLM was built without it, a function UnavailableError for what it does not take.
    """
    from vllm.vllm_flash_attn.flash_attn_interface import FA3_AVAILABLE, FA3_UNAVAILABLE_REASON, flash_attn_varlen_func

    if not FA3_AVAILABLE:
        raise ImportError(FA3_UNAVAILABLE_REASON)
    attention: Callable[..., torch.Tensor] = functools.partial(flash_attn_varlen_func, fa_version=3)
    refused = "vLLM's FlashAttention 3 takes packed sequences and pages alone"

    def dense(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> torch.Tensor:
        if q.shape[0] != 1:
            raise UnavailableError(refused)
        queries, keys = q.shape[1], k.shape[1]
        return packed(q[0], k[0], v[0], _starts(1, queries), _starts(1, keys), queries, keys, **options)[None]

    def packed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *bounds: Any, **options: Any) -> torch.Tensor:
        cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k = bounds
        return attention(q, k, v, max_seqlen_q, cu_seqlens_q, max_seqlen_k, cu_seqlens_k, **options)

    def with_cache(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> torch.Tensor:
        if "block_table" not in options:
            raise UnavailableError(refused)
        batch, queries = q.shape[:2]
        options["seqused_k"] = options.pop("cache_seqlens")
        most = options["block_table"].shape[1] * k.shape[1]
        return attention(q.flatten(0, 1), k, v, queries, _starts(batch, queries), most, **options).view(q.shape)

    return FlashAttention(
        dense=dense,
        packed=packed,
        with_cache=with_cache,
        page_table="block_table",
        page_size=16,
        backend=f"FlashAttention 3 of {library('vllm')}",
    )


@functools.cache
def _starts(sequences: int, length: int) -> torch.Tensor:
    """Cumulative lengths of sequences of one length, int32 [sequences + 1]; cached, so that it is not timed."""
    return torch.arange(0, (sequences + 1) * length, length, dtype=torch.int32, device="cuda")


def _first(function: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    """Without the log-sum-exp, which early releases of flash-attn-3 return with the output."""

    def call(*arguments: Any, **options: Any) -> torch.Tensor:
        out = function(*arguments, **options)
        return out[0] if isinstance(out, tuple) else out

    return call
