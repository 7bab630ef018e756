"""Contiguous KV cache of one attention layer."""

from __future__ import annotations

import torch
from torch import nn

from ..operators.kv_append import kv_append
from .causal_attention import causal_attention


class KVCache(nn.Module):
    """Contiguous capacity for the keys and values of `max_length` positions of one attention layer.

    keys, values (batch, heads_kv, max_length, head_dim) are allocated once; `append` writes after the filled positions
    and returns the filled part as views. All sequences of the batch have the same length. The two buffers move and are
    cast with the module that holds the cache, and stay out of its state_dict: they belong to a request, not to the
    model.
    """

    keys: torch.Tensor
    values: torch.Tensor

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
            raise ValueError(f"KVCache: batch, heads_kv, max_length and head_dim must be positive, got {list(shape)}")
        self.register_buffer("keys", torch.zeros(shape, dtype=dtype, device=device), persistent=False)
        self.register_buffer("values", torch.zeros(shape, dtype=dtype, device=device), persistent=False)
        self.length = 0

    @property
    def max_length(self) -> int:
        """Capacity in positions."""
        return self._room()[2]

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Write k, v (batch, heads_kv, new, head_dim) after the filled positions; returns all filled keys and values.

        The result are views (batch, heads_kv, length, head_dim) of the cache: a later append does not change them, a
        truncate followed by an append does.
        Raises ValueError for another shape, dtype or device, RuntimeError if the capacity is exceeded or if k or v
        require a gradient, which the cache would drop.
        """
        self._check(k, v)
        begin, end = self.length, self.length + k.shape[2]
        with torch.no_grad():
            kv_append(self.keys, self.values, k, v, begin)
        self.length = end
        return self.filled()

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None) -> torch.Tensor:
        """Append k, v, then compute causal attention of q, the same new tokens, to all positions; shaped like q."""
        return causal_attention(q, *self.append(k, v), scale)

    def filled(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of the filled positions, as views."""
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def truncate(self, length: int) -> None:
        """Drop all positions from `length` on. Raises ValueError if there are fewer."""
        if not 0 <= length <= self.length:
            raise ValueError(f"KVCache: cannot truncate to {length} positions, for {self.length} are filled")
        self.length = length

    def reset(self) -> None:
        """Drop all positions; the memory stays allocated."""
        self.length = 0

    def extra_repr(self) -> str:
        batch, heads_kv, max_length, head_dim = self._room()
        return f"batch={batch}, heads_kv={heads_kv}, length={self.length} of {max_length}, head_dim={head_dim}"

    def _room(self) -> tuple[int, int, int, int]:
        """(batch, heads_kv, max_length, head_dim)."""
        batch, heads_kv, max_length, head_dim = self.keys.shape
        return batch, heads_kv, max_length, head_dim

    def _taken_dtype(self) -> torch.dtype:
        """Dtype of the appended keys and values."""
        return self.keys.dtype

    def _check(self, k: torch.Tensor, v: torch.Tensor) -> None:
        batch, heads_kv, max_length, head_dim = self._room()
        check_new("KVCache", k, v, (batch, heads_kv, head_dim), self._taken_dtype(), self.keys.device)
        if self.length + k.shape[2] > max_length:
            raise RuntimeError(
                f"KVCache: {k.shape[2]} more positions do not fit: {self.length} of {max_length} are filled; "
                "reset the cache or make it with a larger max_length"
            )


def check_new(
    cache: str,
    k: torch.Tensor,
    v: torch.Tensor,
    sizes: tuple[int, int, int],
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    """Check that k, v (batch, heads_kv, new, head_dim) have these `sizes`, dtype and device.

    Raises ValueError for another shape, dtype or device, RuntimeError if k or v require a gradient.
    """
    batch, heads_kv, head_dim = sizes
    for name, tensor in (("k", k), ("v", v)):
        if tensor.dim() != 4 or (tensor.shape[:2], tensor.shape[3]) != ((batch, heads_kv), head_dim):
            raise ValueError(
                f"{cache}: {name} must have shape [{batch}, {heads_kv}, new, {head_dim}] "
                f"(batch, heads_kv, new, head_dim), got {list(tensor.shape)}"
            )
        if tensor.dtype != dtype or tensor.device != device:
            raise ValueError(f"{cache}: {name} is {tensor.dtype} on {tensor.device}, the cache {dtype} on {device}")
        if tensor.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(f"{cache}: {name} belongs to a gradient, which would end here; use torch.no_grad()")
    if k.shape != v.shape:
        raise ValueError(f"{cache}: k and v differ in shape: {list(k.shape)} against {list(v.shape)}")
