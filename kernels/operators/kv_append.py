"""New keys and values into a contiguous cache."""

from __future__ import annotations

import torch

from ..extension import load_operator


def kv_append(
    k_cache: torch.Tensor, v_cache: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor | int
) -> None:
    """k_cache[b, :, positions[b] + t] = k[b, :, t], and v_cache likewise, in place.

    k, v (batch, heads, tokens, head_dim); caches (batch, heads, capacity, head_dim); all float16, bfloat16 or float32
    alike, head_dim contiguous, other strides free. positions is (batch) int64, contiguous, on the same device, or one
    number for all sequences, where it is an error if the tokens do not fit. Of a tensor on a CPU a token whose place is
    not in the cache, a negative one among them, is an error, before anything is written; on a GPU, whose host cannot
    tell without waiting for it, that token is left out and the sequence's others are written. The caches must not
    overlap each other, themselves, nor k or v.
    Raises RuntimeError with a sentence for a shape, dtype, device or stride it does not take.
    """
    if isinstance(positions, torch.Tensor):
        _kv_append(k_cache, v_cache, k, v, positions)
    else:
        _kv_append(k_cache, v_cache, k, v, None, positions)


_kv_append = load_operator("kv_append")
