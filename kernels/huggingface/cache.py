"""transformers caches: one around KVCache, and one whose length is on the GPU, for CUDA graphs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, CacheLayerMixin

from ..modules.kv_cache import KVCache
from ..operators.kv_append import kv_append


class ContiguousCache(Cache):
    """Capacity for `max_length` positions in each layer of a causal decoder, allocated with its first keys.

    For `generate(..., past_key_values=ContiguousCache(model.config, max_length))` and for calling the model: unlike
    DynamicCache it never copies old keys and values, unlike StaticCache it returns only the filled part, so that
    attention needs no mask.
    Raises NotImplementedError for a model with layers that do not attend to all previous positions.
    """

    def __init__(self, config: PreTrainedConfig, max_length: int) -> None:
        layers = _layers_of_full_attention(config, "ContiguousCache")
        super().__init__(layers=[_ContiguousLayer(max_length) for _ in range(layers)])


def _layers_of_full_attention(config: PreTrainedConfig, cache: str) -> int:
    """Number of layers of a causal decoder. Raises NotImplementedError, naming `cache`, for other kinds of layers."""
    config = config.get_text_config(decoder=True)
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"} or getattr(config, "sliding_window", None) is not None:
        raise NotImplementedError(
            f"{cache}: only layers of full attention are implemented, got {', '.join(sorted(kinds))}"
            f" and a sliding window of {getattr(config, 'sliding_window', None)}"
        )
    return int(config.num_hidden_layers)


class _Layer(CacheLayerMixin):
    """One layer's capacity for `max_length` positions; the other sizes are those of its first keys."""

    is_sliding = False
    is_croppable = True

    def __init__(self, max_length: int) -> None:
        super().__init__()
        self._max_length = max_length

    def get_max_length(self) -> int:
        return self._max_length

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        self.batch_select_indices(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self.keys is not None:
            every = torch.arange(self.keys.shape[0], device=self.keys.device)
            self.batch_select_indices(every.repeat_interleave(repeats))

    @abstractmethod
    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these sequences, in this order."""

    def offload(self) -> None:
        raise NotImplementedError("this cache cannot be offloaded; keep it on the model's device")

    prefetch = offload


class _ContiguousLayer(_Layer):
    """KVCache of one layer."""

    def __init__(self, max_length: int) -> None:
        super().__init__(max_length)
        self._cache: KVCache | None = None

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        batch, heads_kv, _, head_dim = key_states.shape
        self._cache = KVCache(
            batch, heads_kv, self._max_length, head_dim, dtype=key_states.dtype, device=key_states.device
        )
        self.dtype, self.device = key_states.dtype, key_states.device
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_arguments: Any, **_options: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self._cache is None:
            self.lazy_initialization(key_states, value_states)
        self.keys, self.values = self._filled().append(key_states, value_states)
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        return 0 if self._cache is None else self._cache.length

    def reset(self) -> None:
        if self._cache is not None:
            self._cache.reset()
            self.keys, self.values = self._cache.filled()

    def crop(self, tokens_to_remove: int) -> None:
        """Drop the last -tokens_to_remove positions."""
        if tokens_to_remove > 0:
            raise ValueError(
                f"ContiguousCache: crop takes the negative number of positions to forget, got {tokens_to_remove}"
            )
        if self._cache is not None:
            self._cache.truncate(self._cache.length + tokens_to_remove)
            self.keys, self.values = self._cache.filled()

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        if self._cache is None:
            return
        keys, values = (tensor.index_select(0, indices.to(self.device)) for tensor in self._cache.filled())
        self.lazy_initialization(keys, values)
        self.keys, self.values = self._filled().append(keys, values)

    def _filled(self) -> KVCache:
        assert self._cache is not None
        return self._cache


class GraphCache(Cache):
    """Capacity for `max_length` positions in each layer of a causal decoder, allocated with its first keys.

    Like transformers' StaticCache it returns the whole capacity, with its length in a tensor, which our attention
    understands without a mask. But it computes the write positions once for all layers, and a layer writes in one
    launch. Needs attn_implementation "warpwatch", or another one that masks. Tokens beyond the capacity are handled by
    kv_append: an error on a CPU; skipped on a GPU, which cannot report it.
    Raises NotImplementedError for a model with layers that do not attend to all previous positions.
    """

    def __init__(self, config: PreTrainedConfig, max_length: int) -> None:
        self._max_length = max_length
        self._seen: torch.Tensor | None = None  # () int64: positions before this forward pass
        self._positions: torch.Tensor | None = None  # the same, per sequence
        count = _layers_of_full_attention(config, "GraphCache")
        self._rooms = [_GraphLayer(max_length) for _ in range(count)]
        super().__init__(layers=list(self._rooms))

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_arguments: Any, **_options: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        new = key_states.shape[2]
        if self._seen is None:
            self._seen = torch.zeros((), dtype=torch.int64, device=key_states.device)
        if layer_idx == 0 or self._positions is None:
            self._positions = self._seen.expand(key_states.shape[0]).contiguous()
        keys, values = self._rooms[layer_idx].write(key_states, value_states, self._positions)
        if layer_idx == len(self._rooms) - 1:
            self._seen.add_(new)
        return keys, values

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0 if self._seen is None else self._seen  # type: ignore[return-value]  # as in transformers' StaticLayer

    def reset(self) -> None:
        if self._seen is not None:
            self._seen.zero_()

    def crop(self, tokens_to_remove: int) -> None:
        """Drop the last -tokens_to_remove positions."""
        if tokens_to_remove > 0:
            raise ValueError(
                f"GraphCache: crop takes the negative number of positions to forget, got {tokens_to_remove}"
            )
        if self._seen is not None:
            self._seen.add_(tokens_to_remove).clamp_(min=0)


class _GraphLayer(_Layer):
    """Keys and values of one layer (batch, heads_kv, max_length, head_dim)."""

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.keys, self.values = (
            tensor.new_zeros(*tensor.shape[:2], self._max_length, tensor.shape[3])
            for tensor in (key_states, value_states)
        )
        self.dtype, self.device = key_states.dtype, key_states.device
        self.is_initialized = True

    def write(
        self, key_states: torch.Tensor, value_states: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write from `positions` (batch) on; returns the whole capacity."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        kv_append(self.keys, self.values, key_states, value_states, positions)
        return self.keys, self.values

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_arguments: Any, **_options: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        raise NotImplementedError("GraphCache: its layers share one length; call the cache's own update")

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._max_length, 0

    def get_seq_length(self) -> int:
        raise NotImplementedError("GraphCache: its layers share one length; ask the cache")

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        if self.keys is not None and self.values is not None:
            chosen = indices.to(self.device)
            self.keys, self.values = self.keys.index_select(0, chosen), self.values.index_select(0, chosen)
