"""A KVCache whose length is on the GPU, for decode steps in a CUDA graph."""

from __future__ import annotations

import torch
from torch import nn

from .causal_attention import causal_attention_to
from .kv_cache import check_new


class GraphKVCache(nn.Module):
    """Contiguous capacity for `max_length` positions of one attention layer; a tensor says how many are filled.

    keys, values (batch, heads_kv, max_length, head_dim) and lengths (batch) int32 are allocated once at fixed
    addresses, as buffers outside the state_dict. `append` and `attend` do not read them on the host, so a replayed step
    of up to 8 new tokens continues where the last replay ended. Sequences may differ in length: write to lengths. The
    host cannot check the capacity: exceeding it is PyTorch's index error, which on a GPU destroys the CUDA context.
    """

    keys: torch.Tensor
    values: torch.Tensor
    lengths: torch.Tensor
    _sequences: torch.Tensor  # (batch, 1): 0, 1, 2 ...

    def __init__(
        self,
        batch: int,
        heads_kv: int,
        max_length: int,
        head_dim: int,
        *,
        dtype: torch.dtype = torch.float16,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        shape = (batch, heads_kv, max_length, head_dim)
        if min(shape) < 1:
            raise ValueError(
                f"GraphKVCache: batch, heads_kv, max_length and head_dim must be positive, got {list(shape)}"
            )
        self.register_buffer("keys", torch.zeros(shape, dtype=dtype, device=device), persistent=False)
        self.register_buffer("values", torch.zeros(shape, dtype=dtype, device=device), persistent=False)
        self.register_buffer("lengths", torch.zeros(batch, dtype=torch.int32, device=device), persistent=False)
        self.register_buffer("_sequences", torch.arange(batch, device=device).unsqueeze(1), persistent=False)

    @property
    def max_length(self) -> int:
        """Capacity in positions."""
        return self.keys.shape[2]

    def append(self, k: torch.Tensor, v: torch.Tensor) -> None:
        """Write k, v (batch, heads_kv, new, head_dim) after the filled positions, and increase lengths by new.

        Raises ValueError for another shape, dtype or device, RuntimeError if k or v require a gradient.
        """
        batch, heads_kv, max_length, head_dim = self.keys.shape
        check_new("GraphKVCache", k, v, (batch, heads_kv, head_dim), self.keys.dtype, self.keys.device)
        new = k.shape[2]
        if new > max_length:
            raise RuntimeError(f"GraphKVCache: {new} positions do not fit into {max_length}")
        with torch.no_grad():
            at = self._sequences, self.lengths.unsqueeze(1) + torch.arange(new, device=self.keys.device)
            self.keys.transpose(1, 2).index_put_(at, k.transpose(1, 2))
            self.values.transpose(1, 2).index_put_(at, v.transpose(1, 2))
            self.lengths.add_(new)

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None) -> torch.Tensor:
        """Append k, v, then compute causal attention of q, the same new tokens, to all positions; shaped like q.

        With more than 8 new tokens the host waits for the lengths, which a capture does not allow.
        """
        self.append(k, v)
        return causal_attention_to(q, self.keys, self.values, self.lengths, scale)

    def reset(self) -> None:
        """Drop all positions; the memory stays allocated."""
        self.lengths.zero_()

    def extra_repr(self) -> str:
        batch, heads_kv, max_length, head_dim = self.keys.shape
        return f"batch={batch}, heads_kv={heads_kv}, max_length={max_length}, head_dim={head_dim}"
