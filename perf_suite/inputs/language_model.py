"""Inputs of language_model."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from warpbench.workload import Workload

from ..transformers_models import random_model
from ..workloads.language_model import model_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(slots=True, kw_only=True)
class Served:
    """A model and what it has seen: one for all copies of the inputs.

    Weights in many allocations already lie in many places of memory, and copies of a whole model would take longer to
    make than to measure.
    """

    model: PreTrainedModel
    past: torch.Tensor  # (layers, 2, batch, heads_kv, seen, head_dim): keys and values
    kept: dict[str, Any] = field(default_factory=dict)  # what implementations make ready once

    def __deepcopy__(self, _memo: dict[int, object]) -> Served:
        return self


@dataclass(slots=True, kw_only=True)
class LanguageModelInputs:
    """x (batch, seq_q, hidden): vectors in the place of tokens', so that questions can differ in each."""

    x: torch.Tensor
    served: Served

    @property
    def seen(self) -> int:
        """Positions before the new ones."""
        return self.served.past.shape[4]

    def activations(self) -> tuple[torch.Tensor, ...]:
        """x; the weights belong to the model, and what was seen to the sequences."""
        return (self.x,)

    def expected(self) -> torch.Tensor:
        """The unmodified model's own logits in float64, but for what transformers does in float32: norms and angles."""
        exact = copy.deepcopy(self.served.model).double()
        past = self.served.past.double()
        with torch.no_grad():
            return last_logits(exact, self.x.double(), dynamic_cache(exact.config, past)).double()


def dynamic_cache(config: Any, past: torch.Tensor) -> Any:
    """transformers' default cache, as it is after `past`: what is in it is copied when new keys come."""
    from transformers import DynamicCache

    cache = DynamicCache(config=config)
    if past.shape[4]:
        layers: list[Any] = cache.layers
        for layer, (keys, values) in zip(layers, past, strict=True):
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys, values
    return cache


def last_logits(model: Any, x: torch.Tensor, cache: Any) -> torch.Tensor:
    """(batch, 1, vocabulary), of the last position."""
    logits: torch.Tensor = model(inputs_embeds=x, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
    return logits


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> LanguageModelInputs:
    """Normal x and past, and the weights that transformers begins training with.

    Raises UnavailableError where transformers is not installed.
    """
    from warpbench.prepared import UnavailableError

    p = workload.parameters
    device = generator.device
    seed = int(torch.randint(2**31, (1,), generator=generator, device=device))
    try:
        model = random_model(model_of(workload), dtype=dtype, device=str(device), seed=seed)
    except ModuleNotFoundError as missing:
        raise UnavailableError(f"{missing}: pip install 'warpwatch[models]'") from missing
    head_dim = p["hidden"] // p["heads_q"]
    room = p["layers"], 2, p["batch"], p["heads_kv"], p["seq_kv"] - p["seq_q"], head_dim
    return LanguageModelInputs(
        x=torch.randn(p["batch"], p["seq_q"], p["hidden"], generator=generator, device=device, dtype=dtype),
        served=Served(
            model=model.requires_grad_(False),
            past=torch.randn(room, generator=generator, device=device, dtype=dtype),
        ),
    )
