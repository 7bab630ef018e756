"""New keys and values into a contiguous cache."""

from __future__ import annotations

import torch

from ..extension import load_operator
from .devices import check_devices


def kv_append(
    k_cache: torch.Tensor, v_cache: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor
) -> None:
    """k_cache[b, :, positions[b] + t] = k[b, :, t], and v_cache likewise, in place.

    k, v (batch, heads, tokens, head_dim); caches (batch, heads, capacity, head_dim); all float16, bfloat16 or float32
    alike, head_dim contiguous, other strides free; positions (batch) int64, contiguous, on the same device. Each
    sequence has its own position. On a CPU a token whose place is not in the cache, a negative one among them, is an
    error, before anything is written; on a GPU, whose host cannot tell without waiting for it, that token is left out
    and the sequence's others are written. The caches must not overlap each other, themselves, nor k or v.
    Raises RuntimeError with a sentence for a shape, dtype, device or stride it does not take.
    """
    _kv_append(k_cache, v_cache, k, v, positions)


def _fake_kv_append(
    k_cache: torch.Tensor, v_cache: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor
) -> None:
    check_devices("kv_append", k=k, v=v, k_cache=k_cache, v_cache=v_cache, positions=positions)


_kv_append = load_operator("kv_append", fake=_fake_kv_append)
