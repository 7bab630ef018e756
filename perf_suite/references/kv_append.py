"""Reference of kv_append."""

import torch


def kv_append(caches: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """caches (2, batch, heads, capacity, head_dim) with k at [0, b, :, positions[b] + t] and v at [1, ...], in float64.

    k, v (batch, heads, tokens, head_dim).
    """
    out = caches.double()
    tokens = k.shape[2]
    for b, position in enumerate(positions.tolist()):
        out[0, b, :, position : position + tokens] = k[b].double()
        out[1, b, :, position : position + tokens] = v[b].double()
    return out
