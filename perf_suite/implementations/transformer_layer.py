"""Implementations of transformer_layer."""

import importlib
from typing import Any

import torch
from torch.nn import functional

from warpbench.prepared import Prepared, UnavailableError
from warpbench.torch_compile import compiled

from ..inputs.transformer_layer import TransformerLayerInputs
from ..warpwatch_operators import warpwatch_operator

_ORDER = (
    "input_layernorm.weight",
    "self_attn.q_proj.weight",
    "self_attn.k_proj.weight",
    "self_attn.v_proj.weight",
    "self_attn.o_proj.weight",
    "post_attention_layernorm.weight",
    "mlp.gate_proj.weight",
    "mlp.up_proj.weight",
    "mlp.down_proj.weight",
)


def warpwatch(inputs: TransformerLayerInputs) -> Prepared:
    """The commit's TransformerLayer and KVCache."""
    warpwatch_operator("rms_norm")  # says what is missing where the kernels are not built
    try:
        modules = importlib.import_module("warpwatch.kernels.modules")
    except ModuleNotFoundError as missing:
        raise UnavailableError(f"this commit has no warpwatch.kernels.modules ({missing})") from missing
    batch, _, hidden = inputs.x.shape
    _, heads_kv, room, head_dim = inputs.keys.shape
    dtype, device = inputs.x.dtype, inputs.x.device
    sizes = hidden, inputs.intermediate, inputs.heads, heads_kv
    layer = modules.TransformerLayer(*sizes, eps=inputs.eps, dtype=dtype, device="meta")
    layer.load_state_dict(inputs.weights, assign=True)
    layer.requires_grad_(False)
    cache = modules.KVCache(batch, heads_kv, room, head_dim, dtype=dtype, device=device)
    cache.append(inputs.keys[:, :, : inputs.seen], inputs.values[:, :, : inputs.seen])

    def run() -> torch.Tensor:
        cache.truncate(inputs.seen)
        out: torch.Tensor = layer(inputs.x, inputs.cos, inputs.sin, cache)
        return out

    return Prepared(run=run)


def eager(inputs: TransformerLayerInputs) -> Prepared:
    """The same layer in plain PyTorch: SDPA, cuBLAS, rms_norm; new keys written where they belong in the cache."""
    arguments = _arguments(inputs)
    return Prepared(run=lambda: _layer(inputs.x, *arguments))


def torch_compile(inputs: TransformerLayerInputs) -> Prepared:
    """The same formula through torch.compile."""
    arguments = _arguments(inputs)
    layer = compiled(_layer, inputs.x, inputs.keys)
    return Prepared(run=lambda: layer(inputs.x, *arguments))


def _arguments(inputs: TransformerLayerInputs) -> tuple[Any, ...]:
    cos, sin = (torch.cat((table, table), dim=-1).to(inputs.x.dtype) for table in (inputs.cos, inputs.sin))
    weights = tuple(inputs.weights[name] for name in _ORDER)
    return weights, cos, sin, inputs.keys, inputs.values, inputs.heads, inputs.eps


def _layer(
    x: torch.Tensor,
    weights: tuple[torch.Tensor, ...],
    cos: torch.Tensor,
    sin: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    heads: int,
    eps: float,
) -> torch.Tensor:
    attention_norm, q_weight, k_weight, v_weight, o_weight, mlp_norm, gate_weight, up_weight, down_weight = weights
    hidden, head_dim, new = x.shape[-1:], keys.shape[-1], x.shape[1]
    normed = functional.rms_norm(x, hidden, attention_norm, eps)
    q, k, v = (
        functional.linear(normed, weight).unflatten(-1, (-1, head_dim)).transpose(1, 2)
        for weight in (q_weight, k_weight, v_weight)
    )
    keys[:, :, keys.shape[2] - new :] = _turned(k, cos, sin)
    values[:, :, values.shape[2] - new :] = v
    attended = functional.scaled_dot_product_attention(
        _turned(q, cos, sin), keys, values, is_causal=new > 1, enable_gqa=keys.shape[1] != heads
    )
    y = x + functional.linear(attended.transpose(1, 2).flatten(2), o_weight)
    normed = functional.rms_norm(y, hidden, mlp_norm, eps)
    gated = functional.silu(functional.linear(normed, gate_weight)) * functional.linear(normed, up_weight)
    return y + functional.linear(gated, down_weight)


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin
