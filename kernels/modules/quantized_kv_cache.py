"""KVCache in 8 and 4 bits."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..operators.int4_decode_attention import int4_decode_attention
from ..operators.int4_kv_append import int4_kv_append
from ..operators.int8_decode_attention import int8_decode_attention
from ..operators.int8_kv_append import int8_kv_append
from .causal_attention import DECODE_TOKENS, causal_attention
from .gradient import refuse_gradient
from .kv_cache import KVCache

_Parts = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
_GROUP = 32  # tokens, and channels, per scale in 4 bits


class Int8KVCache(KVCache):
    """KVCache in 8 bits with one scale per token and head: half the memory of 16 bits.

    Keys and values are quantized when appended. `attend` reads the codes; `append` and `filled` return dequantized
    copies, for code written for KVCache. `dtype` is that of the appended and the returned tensors.
    """

    lengths: torch.Tensor  # (batch) int32 on the device, all equal to `length`
    key_scales: torch.Tensor
    value_scales: torch.Tensor

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
        super().__init__(batch, heads_kv, max_length, head_dim, dtype=torch.int8, device=device)
        self.dtype = dtype
        self._hold("lengths", (batch,), torch.int32, device)
        self._hold("key_scales", (batch, heads_kv, max_length), torch.float32, device)
        self._hold("value_scales", (batch, heads_kv, max_length), torch.float32, device)

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Quantize and write k, v (batch, heads_kv, new, head_dim) after the filled positions; returns `filled`.

        Raises as KVCache.append does.
        """
        self.write(k, v)
        return self.filled()

    def write(self, k: torch.Tensor, v: torch.Tensor) -> None:
        """`append` without its result, for callers that only `attend`."""
        self._check(k, v)
        before = self.length
        self._set_length(before + k.shape[2])
        try:
            with torch.no_grad():
                self._quantize(k, v)
        except RuntimeError:
            self._set_length(before)  # nothing was written
            raise

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None) -> torch.Tensor:
        """Append k, v, then compute causal attention of q, the same new tokens, to all positions; shaped like q.

        A few new tokens read the codes directly; more of them (a prompt) read the result of `filled`.
        """
        self.write(k, v)
        if q.shape[2] > DECODE_TOKENS:
            return causal_attention(q, *self.filled(), scale)
        return refuse_gradient(self._decode(q, scale), type(self).__name__, "attend under torch.no_grad()")

    def _decode(self, q: torch.Tensor, scale: float | None) -> torch.Tensor:
        return int8_decode_attention(
            q,
            self.keys,
            self.values,
            self.key_scales,
            self.value_scales,
            self.lengths,
            scale=scale,
            max_length=self.length,
        )

    def filled(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of the filled positions, dequantized."""
        so_far = slice(self.length)
        keys, values = (
            (codes[:, :, so_far].float() * scales[:, :, so_far, None]).to(self.dtype)
            for codes, scales in ((self.keys, self.key_scales), (self.values, self.value_scales))
        )
        return keys, values

    def truncate(self, length: int) -> None:
        """Drop all positions from `length` on. Raises ValueError if there are fewer."""
        super().truncate(length)
        self._set_length(length)

    def reset(self) -> None:
        """Drop all positions; the memory stays allocated."""
        self._set_length(0)

    def _quantize(self, k: torch.Tensor, v: torch.Tensor) -> None:
        int8_kv_append(k, v, self.keys, self.values, self.key_scales, self.value_scales, self.lengths)

    def _hold(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str | None) -> None:
        self.register_buffer(name, torch.zeros(shape, dtype=dtype, device=device), persistent=False)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Int8KVCache:
        before = {name: self.get_buffer(name) for name in ("key_scales", "value_scales")}
        super()._apply(fn, recurse)
        for name, scales in before.items():  # scales move with the module but keep the dtype that the operators take
            self._buffers[name] = scales.to(self.get_buffer(name).device)
        self.dtype = fn(torch.empty(0, dtype=self.dtype)).dtype
        return self

    def _set_length(self, length: int) -> None:
        self.length = length
        self.lengths.fill_(length)

    def _taken_dtype(self) -> torch.dtype:
        return self.dtype


class Int4KVCache(Int8KVCache):
    """KVCache in 4 bits as in KIVI: complete groups of 32 tokens quantized, the up to 31 newest tokens in 16 bits.

    Five bits per element, scales included, instead of 16. Otherwise like Int8KVCache, except that `truncate` cannot
    reopen a complete group, whose original keys and values are gone.
    """

    key_window: torch.Tensor
    value_window: torch.Tensor

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
        KVCache.__init__(self, batch, heads_kv, max_length, head_dim, dtype=torch.uint8, device="meta")
        if head_dim % _GROUP:
            raise ValueError(f"Int4KVCache: head_dim must be a multiple of {_GROUP}, got {head_dim}")
        self.dtype = dtype
        self._shape = (batch, heads_kv, max_length, head_dim)
        capacity = -(-max_length // _GROUP) * _GROUP
        for name in ("keys", "values"):
            self._hold(name, (batch, heads_kv, capacity, head_dim // 2), torch.uint8, device)
        self._hold("lengths", (batch,), torch.int32, device)
        self._hold("key_scales", (batch, heads_kv, capacity // _GROUP, 2, head_dim), torch.float16, device)
        self._hold("value_scales", (batch, heads_kv, capacity, head_dim // _GROUP, 2), torch.float16, device)
        for name in ("key_window", "value_window"):
            self._hold(name, (batch, heads_kv, _GROUP, head_dim), dtype, device)

    def _decode(self, q: torch.Tensor, scale: float | None) -> torch.Tensor:
        return int4_decode_attention(q, *self._parts(), self.lengths, scale=scale, max_length=self.length)

    def filled(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of the filled positions, dequantized."""
        whole = self.length // _GROUP * _GROUP
        of_tokens = self.key_scales[:, :, : whole // _GROUP].float().repeat_interleave(_GROUP, dim=2)
        of_channels = self.value_scales[:, :, :whole].float().repeat_interleave(_GROUP, dim=3)
        keys = _unpacked(self.keys[:, :, :whole]) * of_tokens[..., 0, :] + of_tokens[..., 1, :]
        values = _unpacked(self.values[:, :, :whole]) * of_channels[..., 0] + of_channels[..., 1]
        newest = slice(self.length - whole)
        return (
            torch.cat((keys.to(self.dtype), self.key_window[:, :, newest]), dim=2),
            torch.cat((values.to(self.dtype), self.value_window[:, :, newest]), dim=2),
        )

    def truncate(self, length: int) -> None:
        """Drop all positions from `length` on.

        Raises ValueError if there are fewer, or if `length` lies inside a complete group.
        """
        if length % _GROUP and length // _GROUP < self.length // _GROUP:
            raise ValueError(
                f"Int4KVCache: cannot truncate {self.length} positions to {length}, for those up to "
                f"{self.length // _GROUP * _GROUP} are quantized in groups of {_GROUP}; take a multiple of {_GROUP}"
            )
        super().truncate(length)

    def _quantize(self, k: torch.Tensor, v: torch.Tensor) -> None:
        int4_kv_append(k, v, *self._parts(), self.lengths)

    def _parts(self) -> _Parts:
        return (self.keys, self.values, self.key_scales, self.value_scales, self.key_window, self.value_window)

    def _room(self) -> tuple[int, int, int, int]:
        return self._shape


def _unpacked(codes: torch.Tensor) -> torch.Tensor:
    return torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2).float()
