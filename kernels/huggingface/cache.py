"""KVCache as a cache of transformers."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, CacheLayerMixin

from ..modules.kv_cache import KVCache


class ContiguousCache(Cache):
    """Room for `max_length` positions in each layer of a causal decoder, allocated when its first keys come.

    For `generate(..., past_key_values=ContiguousCache(model.config, max_length))` and for calling the model: unlike
    DynamicCache it copies nothing that is already there, unlike StaticCache it returns only what is filled, so that
    attention needs no mask.
    Raises NotImplementedError for a model whose layers do not all attend to everything before them.
    """

    def __init__(self, config: PreTrainedConfig, max_length: int) -> None:
        layers = layers_of_full_attention(config, "ContiguousCache")
        super().__init__(layers=[_ContiguousLayer(max_length) for _ in range(layers)])


def layers_of_full_attention(config: PreTrainedConfig, cache: str) -> int:
    """How many layers a causal decoder has. Raises NotImplementedError, in the name of `cache`, for other layers."""
    config = config.get_text_config(decoder=True)
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"} or getattr(config, "sliding_window", None) is not None:
        raise NotImplementedError(
            f"{cache}: only layers of full attention are implemented, got {', '.join(sorted(kinds))}"
            f" and a sliding window of {getattr(config, 'sliding_window', None)}"
        )
    return int(config.num_hidden_layers)


class _ContiguousLayer(CacheLayerMixin):
    """One layer's KVCache, which learns its shape from the first keys."""

    is_sliding = False
    is_croppable = True

    def __init__(self, max_length: int) -> None:
        super().__init__()
        self._max_length = max_length
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

    def get_max_length(self) -> int:
        return self._max_length

    def reset(self) -> None:
        if self._cache is not None:
            self._cache.reset()
            self.keys, self.values = self._cache.filled()

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last -tokens_to_remove positions."""
        if tokens_to_remove > 0:
            raise ValueError(
                f"ContiguousCache: crop takes the negative number of positions to forget, got {tokens_to_remove}"
            )
        if self._cache is not None:
            self._cache.truncate(self._cache.length + tokens_to_remove)
            self.keys, self.values = self._cache.filled()

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        self._choose(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self._cache is not None:
            self._choose(torch.arange(self._cache.keys.shape[0], device=self.device).repeat_interleave(repeats))

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        self._choose(indices)

    def offload(self) -> None:
        raise NotImplementedError("ContiguousCache: offloading is not implemented")

    prefetch = offload

    def _choose(self, sequences: torch.Tensor) -> None:
        """The cache of these sequences, in this order."""
        if self._cache is None:
            return
        keys, values = (tensor.index_select(0, sequences.to(self.device)) for tensor in self._cache.filled())
        self.lazy_initialization(keys, values)
        self.keys, self.values = self._filled().append(keys, values)

    def _filled(self) -> KVCache:
        assert self._cache is not None
        return self._cache
