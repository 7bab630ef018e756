"""The language models as models of Hugging Face transformers, with random weights.

transformers is imported by the functions: asv imports every module of the suite, also where it is not installed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from warpbench.lazy import torch

from .language_models import Architecture, LanguageModel

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel


def configuration(model: LanguageModel) -> PreTrainedConfig:
    """What transformers builds the model from. No token ends a generation, so that its length is the one asked for."""
    from transformers import GPT2Config, LlamaConfig

    if model.architecture is Architecture.GPT2:
        return GPT2Config(
            vocab_size=model.vocabulary,
            n_positions=model.context,
            n_embd=model.hidden,
            n_layer=model.layers,
            n_head=model.heads,
            n_inner=model.intermediate,
            layer_norm_epsilon=model.norm_epsilon,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=0,
        )
    return LlamaConfig(
        vocab_size=model.vocabulary,
        hidden_size=model.hidden,
        intermediate_size=model.intermediate,
        num_hidden_layers=model.layers,
        num_attention_heads=model.heads,
        num_key_value_heads=model.heads_kv,
        max_position_embeddings=model.context,
        rms_norm_eps=model.norm_epsilon,
        rope_parameters={"rope_type": "default", "rope_theta": model.rope_theta},
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )


def random_model(
    model: LanguageModel, *, dtype: torch.dtype, device: str, seed: int, layers: int | None = None
) -> PreTrainedModel:
    """The model with the weights that transformers begins training with, or its first `layers`; ready for inference."""
    from transformers import AutoModelForCausalLM

    shortened = replace(model, layers=model.layers if layers is None else layers)
    with torch.random.fork_rng(devices=[device] if torch.device(device).type == "cuda" else []), torch.device(device):
        torch.manual_seed(seed)
        return AutoModelForCausalLM.from_config(configuration(shortened), dtype=dtype).eval()
