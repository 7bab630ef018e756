"""rope in the attention of Llama models."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama import modeling_llama

from ..modules.gradient import refuse_gradient
from ..operators.rope import rope


def replace_rotary(model: nn.Module) -> nn.Module:
    """Put rope in the place of transformers' rotary embedding in each LlamaAttention, in place; the model.

    The attention modules keep their names, weights and whatever stands in for their linear layers; only their forward
    is ours, for transformers turns q and k by a function of its module and not of the model. cos and sin are computed
    once in a forward pass and in float32, where transformers rounds them to the model's dtype.
    Raises ValueError for a model that has none.
    """
    attentions = [module for module in model.modules() if type(module) is modeling_llama.LlamaAttention]
    embeddings = [module for module in model.modules() if type(module) is modeling_llama.LlamaRotaryEmbedding]
    if not attentions or not embeddings:
        raise ValueError("replace_rotary: the model has no LlamaAttention with a LlamaRotaryEmbedding to replace")
    for attention in attentions:
        attention.__class__ = _RopeAttention
    for embedding in embeddings:
        embedding.__class__ = _Tables
    return model


class _Tables(modeling_llama.LlamaRotaryEmbedding):
    """cos and sin as rope wants them: float32 (batch * seq, head_dim / 2), batch being 1 where positions are shared."""

    @torch.no_grad()
    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        wide = torch.empty((), dtype=torch.float32, device=x.device)  # what it looks at is the dtype and the device
        cos, sin = super().forward(wide, position_ids)
        half = cos.shape[-1] // 2  # the second half repeats the first
        return cos[..., :half].flatten(0, 1), sin[..., :half].flatten(0, 1)


class _RopeAttention(modeling_llama.LlamaAttention):
    def forward(  # type: ignore[override]  # positions are not optional, and what attention returns is its own
        self,
        hidden_states: torch.Tensor,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],
        attention_mask: Any = None,
        past_key_values: Any = None,
        **options: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        def heads(projection: nn.Module) -> torch.Tensor:  # (batch, seq, heads, head_dim)
            return projection(hidden_states).unflatten(-1, (-1, self.head_dim))

        q, k = (_turned(heads(projection), *position_embeddings) for projection in (self.q_proj, self.k_proj))
        v = heads(self.v_proj).transpose(1, 2)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, modeling_llama.eager_attention_forward
        )
        dropout = self.attention_dropout if self.training else 0.0
        out, weights = attend(self, q, k, v, attention_mask, dropout=dropout, scaling=self.scaling, **options)
        return self.o_proj(out.flatten(2)), weights


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x (batch, seq, heads, head_dim) turned, as (batch, heads, seq, head_dim)."""
    batch, seq = x.shape[:2]
    if cos.shape[0] == seq:
        out = rope(x.transpose(1, 2), cos, sin)
    else:  # each sequence has positions of its own: the batch is one long sequence to rope
        out = rope(x.flatten(0, 1).transpose(0, 1).unsqueeze(0), cos, sin)
        out = out.squeeze(0).unflatten(1, (batch, seq)).transpose(0, 1)
    return refuse_gradient(out, "rope", "train without replace_rotary")
