"""Implementations of language_model."""

import copy
import importlib
from collections.abc import Callable
from typing import Any

import torch

from warpbench.prepared import Prepared, UnavailableError
from warpbench.torch_compile import compiled

from ..inputs.language_model import LanguageModelInputs, dynamic_cache, last_logits
from ..warpwatch_operators import warpwatch_operator


def warpwatch(inputs: LanguageModelInputs) -> Prepared:
    """The model with the commit's kernels: attention, cache, norms, and what else the architecture has."""
    model, cache = _once(inputs, "warpwatch", _switched)
    seen = inputs.seen

    @torch.no_grad()
    def run() -> torch.Tensor:
        cache.rewind(seen)
        return last_logits(model, inputs.x, cache.cache)

    return Prepared(run=run)


def eager(inputs: LanguageModelInputs) -> Prepared:
    """The model as transformers makes it: SDPA, and a cache that grows by being copied.

    While it is captured in a graph, transformers makes a mask and repeats key heads for it, as it does when it is
    compiled: its replays do more than its calls.
    """
    model, past = inputs.served.model, inputs.served.past

    @torch.no_grad()
    def run() -> torch.Tensor:
        return last_logits(model, inputs.x, dynamic_cache(model.config, past))

    return Prepared(run=run)


def torch_compile(inputs: LanguageModelInputs) -> Prepared:
    """The same through torch.compile; a step has transformers' StaticCache, as it wants to be compiled with."""
    model = inputs.served.model
    step = compiled(last_logits, inputs.x, *model.parameters())
    cache = _once(inputs, "static", _static_cache) if inputs.seen else None

    @torch.no_grad()
    def run() -> torch.Tensor:
        if cache is None:
            return step(model, inputs.x, dynamic_cache(model.config, inputs.served.past))
        for layer in cache.layers:
            layer.cumulative_length.fill_(inputs.seen)
        return step(model, inputs.x, cache)

    return Prepared(run=run)


class _Rewound:
    """A cache whose room stays, with its length set back before each call."""

    def __init__(self, cache: Any) -> None:
        self.cache = cache

    def rewind(self, seen: int) -> None:
        """A prompt's cache is empty on the host too; a step's length is a tensor."""
        if seen == 0:
            self.cache.reset()
        else:
            self.cache.crop(-1)


def _switched(inputs: LanguageModelInputs) -> tuple[Any, _Rewound]:
    warpwatch_operator("decode_attention")  # says what is missing where the kernels are not built
    try:
        ours = importlib.import_module("warpwatch.kernels.huggingface")
        cache_type = ours.GraphCache if inputs.seen else ours.ContiguousCache
    except (ModuleNotFoundError, AttributeError) as missing:
        raise UnavailableError(f"this commit has no such warpwatch.kernels.huggingface ({missing})") from missing
    model = _sharing_weights(inputs.served.model)
    ours.replace_norms(model)
    if model.config.model_type == "llama":
        ours.replace_rotary(model)
    if hasattr(ours, "replace_mlp"):
        ours.replace_mlp(model)
    model.set_attn_implementation(ours.register_attention())
    past = inputs.served.past
    cache = cache_type(model.config, inputs.seen + inputs.x.shape[1])
    if inputs.seen:
        for index, (keys, values) in enumerate(past):
            cache.update(keys, values, index)
        with torch.no_grad():
            last_logits(model, inputs.x, cache)  # a step to take back
    return model, _Rewound(cache)


def _static_cache(inputs: LanguageModelInputs) -> Any:
    from transformers import StaticCache

    cache = StaticCache(inputs.served.model.config, inputs.seen + inputs.x.shape[1])
    for index, (keys, values) in enumerate(inputs.served.past):
        cache.update(keys, values, index)
    return cache


def _sharing_weights(model: Any) -> Any:
    """A copy to change, of the same parameters."""
    tensors = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


def _once(inputs: LanguageModelInputs, name: str, make: Callable[[LanguageModelInputs], Any]) -> Any:
    """Made for the first of the inputs' copies: the model is one for all of them."""
    kept = inputs.served.kept
    if name not in kept:
        kept[name] = make(inputs)
    return kept[name]
