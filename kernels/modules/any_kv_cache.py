"""What a layer asks of its cache, however that holds keys and values."""

from __future__ import annotations

from typing import Protocol

import torch


class AnyKVCache(Protocol):
    """KVCache, GraphKVCache, PagedKVCache, and whatever else remembers positions."""

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None) -> torch.Tensor:
        """Remember k, v (batch, heads_kv, new, head_dim), and causal attention of q, the same new tokens, to
        everything so far; like q."""
