"""Reference of attention of a few new tokens over a cache."""

import torch

from .flash_attention import flash_attention


def decode_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    """softmax(scale q k^T) v in float64, each sequence cut to its own length.

    q (batch, heads_q, seq_q, head_dim); k, v (batch, heads_kv, capacity, head_dim); lengths (batch), taken as
    0 .. capacity, which all sequences have without it. Query i sees keys j <= i + (length - seq_q); one that sees no
    key gives zeros.
    """
    capacity = k.shape[2]
    known = [capacity] * len(q) if lengths is None else lengths.clamp(0, capacity).tolist()
    out = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    for b, length in enumerate(known):
        one = slice(b, b + 1)
        out[one] = flash_attention(q[one], k[one, :, :length], v[one, :, :length], causal=True, scale=scale)
    return out
