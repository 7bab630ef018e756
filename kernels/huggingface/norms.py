"""rms_norm and layer_norm in the models of transformers."""

from __future__ import annotations

import torch
from torch import nn
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from ..modules.gradient import refuse_gradient
from ..operators.layer_norm import layer_norm
from ..operators.rms_norm import rms_norm


def replace_norms(model: nn.Module) -> nn.Module:
    """Put rms_norm in the place of each LlamaRMSNorm and layer_norm in that of each nn.LayerNorm; the model.

    In place, and only for norms over one dimension that have a weight; the modules keep their names and weights. Ours
    rounds once, where transformers rounds before the weight too.
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
