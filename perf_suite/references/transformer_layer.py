"""Reference of a decoder layer of Llama's kind."""

from collections.abc import Mapping

import torch

from .flash_attention import flash_attention
from .rms_norm import rms_norm
from .rope import rope
from .swiglu import swiglu


def transformer_layer(
    x: torch.Tensor,
    weights: Mapping[str, torch.Tensor],
    cos: torch.Tensor,
    sin: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    heads: int,
    eps: float,
) -> torch.Tensor:
    """y = x + attention(norm(x)), then y + mlp(norm(y)), in float64.

    x (batch, seq, hidden); weights by the names of transformers' LlamaDecoderLayer; cos, sin (seq, head_dim / 2);
    keys, values (batch, heads_kv, seen, head_dim) of the positions before. Touvron et al., "LLaMA" (arXiv:2302.13971,
    2023).
    """
    w = {name: weight.double() for name, weight in weights.items()}
    head_dim = x.shape[-1] // heads
    normed = rms_norm(x, w["input_layernorm.weight"], eps)
    q, k, v = (
        (normed @ w[f"self_attn.{name}_proj.weight"].T).unflatten(-1, (-1, head_dim)).transpose(1, 2) for name in "qkv"
    )
    k = torch.cat((keys.double(), rope(k, cos, sin)), dim=2)
    v = torch.cat((values.double(), v), dim=2)
    attended = flash_attention(rope(q, cos, sin), k, v, causal=True).transpose(1, 2).flatten(2)
    y = x.double() + attended @ w["self_attn.o_proj.weight"].T
    normed = rms_norm(y, w["post_attention_layernorm.weight"], eps)
    return y + swiglu(normed, w["mlp.gate_proj.weight"], w["mlp.up_proj.weight"]) @ w["mlp.down_proj.weight"].T
