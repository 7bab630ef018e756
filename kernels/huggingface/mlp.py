"""swiglu and linear_gelu in the feed-forward networks of Llama and GPT-2."""

from __future__ import annotations

import torch
from torch import nn
from transformers.activations import NewGELUActivation, SiLUActivation
from transformers.models.gpt2.modeling_gpt2 import GPT2MLP
from transformers.models.llama.modeling_llama import LlamaMLP
from transformers.pytorch_utils import Conv1D

from ..modules.gradient import refuse_gradient
from ..modules.linear_activation import LinearGELU
from ..operators.linear_activation import swiglu


def replace_mlp(model: nn.Module) -> nn.Module:
    """Put swiglu into each LlamaMLP with a silu, and linear_gelu into each GPT2MLP with gelu_new; the model.

    In place. A LlamaMLP keeps its weights and names. Of a GPT2MLP, `c_fc` becomes a LinearGELU, whose weight is the
    Conv1D's transposed, in memory of its own. Layers that were quantized before stay, with PyTorch's activation.
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
        if type(gate) is not nn.Linear or type(up) is not nn.Linear:
            return super().forward(x)
        out = swiglu(x, gate.weight, up.weight, gate.bias, up.bias)
        return self.down_proj(refuse_gradient(out, "swiglu", "train without replace_mlp"))


def _linear_gelu(layer: Conv1D) -> LinearGELU:
    depth, outputs = layer.weight.shape
    made = LinearGELU(depth, outputs, approximate="tanh", dtype=layer.weight.dtype, device="meta")
    made.weight = nn.Parameter(layer.weight.detach().t().contiguous(), layer.weight.requires_grad)
    made.bias = layer.bias
    return made.train(layer.training)
