"""Append of new keys and values to a contiguous cache."""

from __future__ import annotations

import torch

from ..extension import load_operator


def kv_append(
    k_cache: torch.Tensor, v_cache: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor | int
) -> None:
    """k_cache[b, :, positions[b] + t] = k[b, :, t], and v_cache likewise, in place.

    k, v (batch, heads, tokens, head_dim); caches (batch, heads, capacity, head_dim); all of one dtype, float16,
    bfloat16 or float32; head_dim contiguous, other strides free. positions is (batch) int64, contiguous, on the same
    device, or one number for all sequences, for which tokens that do not fit are an error. With a tensor, a token whose
    position is outside the cache (also a negative one) is an error on a CPU, before anything is written; on a GPU,
    which cannot report it without a synchronisation, that token is skipped and the sequence's others are written. The
    caches must not overlap each other, themselves, nor k or v.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    if isinstance(positions, torch.Tensor):
        _kv_append(k_cache, v_cache, k, v, positions)
    else:
        _kv_append(k_cache, v_cache, k, v, None, positions)


_kv_append = load_operator("kv_append")
