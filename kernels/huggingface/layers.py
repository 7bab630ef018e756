"""Replaces layers of transformers models by our operators: norms, MLPs, linear layers, rotary embeddings."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import nn
from transformers.activations import NewGELUActivation, SiLUActivation
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.gpt2.modeling_gpt2 import GPT2MLP
from transformers.models.llama import modeling_llama
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm
from transformers.pytorch_utils import Conv1D

from ..modules.gradient import refuse_gradient
from ..modules.linear_activation import Linear, LinearGELU, holds_its_weight
from ..operators.layer_norm import layer_norm
from ..operators.linear_activation import swiglu
from ..operators.rms_norm import rms_norm
from ..operators.rope import rope


def replace_norms(model: nn.Module) -> nn.Module:
    """Replace each LlamaRMSNorm by rms_norm and each nn.LayerNorm by layer_norm; returns the model.

    In place, and only norms over one dimension with a weight; the modules keep their names and weights. Ours rounds
    once; transformers also rounds before the weight.
    Raises ValueError for a model that has none to replace.
    """
    replaced = 0
    for module in model.modules():
        if type(module) is LlamaRMSNorm:
            module.__class__ = _RMSNorm
        elif type(module) is nn.LayerNorm and module.elementwise_affine and len(module.normalized_shape) == 1:
            module.__class__ = _LayerNorm
        else:
            continue
        replaced += 1
    if not replaced:
        raise ValueError("replace_norms: the model has no LlamaRMSNorm and no nn.LayerNorm to replace")
    return model


class _RMSNorm(LlamaRMSNorm):
    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        out = rms_norm(hidden_states, self.weight, eps=self.variance_epsilon)
        return refuse_gradient(out, "rms_norm", "train without replace_norms")


class _LayerNorm(nn.LayerNorm):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        out = layer_norm(input, self.weight, self.bias, eps=self.eps)
        return refuse_gradient(out, "layer_norm", "train without replace_norms")


def replace_mlp(model: nn.Module) -> nn.Module:
    """Use swiglu in each LlamaMLP with a silu, and linear_gelu in each GPT2MLP with gelu_new; returns the model.

    In place. A LlamaMLP keeps its weights and names. In a GPT2MLP, `c_fc` becomes a LinearGELU with a transposed copy
    of the Conv1D's weight. Layers that are already quantized stay, followed by PyTorch's activation.
    Raises ValueError for a model that has none to replace.
    """
    replaced = 0
    for module in model.modules():
        if type(module) is LlamaMLP and isinstance(module.act_fn, nn.SiLU | SiLUActivation):
            module.__class__ = _GatedMLP
        elif type(module) is GPT2MLP and type(module.c_fc) is Conv1D and isinstance(module.act, NewGELUActivation):
            module.add_module("c_fc", _linear_gelu(module.c_fc))
            module.act = nn.Identity()
        else:
            continue
        replaced += 1
    if not replaced:
        raise ValueError("replace_mlp: the model has no LlamaMLP with a silu and no GPT2MLP with gelu_new to replace")
    return model


class _GatedMLP(LlamaMLP):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_proj, self.up_proj
        if not (holds_its_weight(gate) and holds_its_weight(up)):
            return super().forward(x)
        out = swiglu(x, gate.weight, up.weight, gate.bias, up.bias)
        return self.down_proj(refuse_gradient(out, "swiglu", "train without replace_mlp"))


def replace_linear(model: nn.Module) -> nn.Module:
    """Replace each nn.Linear, and each Conv1D (GPT-2), by modules.Linear; returns the model.

    In place. Call it after replace_mlp, which looks for GPT-2's Conv1D. An nn.Linear keeps its weights and names; a
    Conv1D gets a transposed copy of its weight. Subclasses and quantized layers stay. A layer used in several places is
    replaced by one.
    Raises ValueError for a model that has none to replace.
    """
    found = [
        (name, module)
        for name, module in model.named_modules(remove_duplicate=False)
        if type(module) in (nn.Linear, Conv1D)
    ]
    made: dict[nn.Module, Linear] = {}
    for name, module in found:
        if isinstance(module, Conv1D):
            depth, outputs = module.weight.shape
            if module not in made:
                made[module] = _transposed(module, Linear(depth, outputs, device="meta"))
            model.set_submodule(name, made[module])
        else:
            module.__class__ = Linear
    if not found:
        raise ValueError("replace_linear: the model has no nn.Linear and no Conv1D to replace")
    return model


def _linear_gelu(layer: Conv1D) -> LinearGELU:
    depth, outputs = layer.weight.shape
    return _transposed(layer, LinearGELU(depth, outputs, approximate="tanh", device="meta"))


Layer = TypeVar("Layer", bound=nn.Linear)


def _transposed(layer: Conv1D, made: Layer) -> Layer:
    """Set `made` to the layer's transposed weight and its bias; returns it."""
    made.weight = nn.Parameter(layer.weight.detach().t().contiguous(), layer.weight.requires_grad)
    made.bias = layer.bias
    return made.train(layer.training)


def replace_rotary(model: nn.Module) -> nn.Module:
    """Use rope in each LlamaAttention, in place; returns the model.

    The attention modules keep their names, weights and linear layers or their replacements; only their forward is ours,
    since transformers rotates q and k by a module-level function. cos and sin are computed once per forward pass in
    float32; transformers rounds them to the model's dtype.
    Raises ValueError for a model without LlamaAttention.
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
    """cos and sin for rope: float32 (batch * seq, head_dim / 2); batch is 1 if all sequences share positions."""

    @torch.no_grad()
    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        wide = torch.empty((), dtype=torch.float32, device=x.device)  # only its dtype and device are used
        cos, sin = super().forward(wide, position_ids)
        half = cos.shape[-1] // 2  # the second half repeats the first
        return cos[..., :half].flatten(0, 1), sin[..., :half].flatten(0, 1)


class _RopeAttention(modeling_llama.LlamaAttention):
    def forward(  # type: ignore[override]  # positions are required, and our attention's return type differs
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
    """Rotate x (batch, seq, heads, head_dim); returns (batch, heads, seq, head_dim)."""
    batch, seq = x.shape[:2]
    if cos.shape[0] == seq:
        out = rope(x.transpose(1, 2), cos, sin)
    else:  # positions differ between sequences: rope gets the batch as one long sequence
        out = rope(x.flatten(0, 1).transpose(0, 1).unsqueeze(0), cos, sin)
        out = out.squeeze(0).unflatten(1, (batch, seq)).transpose(0, 1)
    return refuse_gradient(out, "rope", "train without replace_rotary")
