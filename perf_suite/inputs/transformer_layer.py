"""Inputs of transformer_layer."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.transformer_layer import transformer_layer as reference

_BASE = 10000.0


@dataclass(slots=True, kw_only=True)
class TransformerLayerInputs:
    """x (batch, seq_q, hidden), a layer's weights, and the room of its cache.

    Weights (outputs, depth) have the names that they have in transformers' LlamaDecoderLayer. cos, sin (seq_q,
    head_dim / 2) fp32 are those of the newest positions. keys, values (batch, heads_kv, seq_kv, head_dim), of which the
    newest seq_q are the new tokens' own, to be written by the layer.
    """

    x: torch.Tensor
    weights: dict[str, torch.Tensor]
    cos: torch.Tensor
    sin: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    heads: int
    intermediate: int
    eps: float

    @property
    def seen(self) -> int:
        """Positions before the new ones."""
        return self.keys.shape[2] - self.x.shape[1]

    def activations(self) -> tuple[torch.Tensor, ...]:
        """x; the weights belong to the model, and what the cache holds to the sequences."""
        return (self.x,)

    def expected(self) -> torch.Tensor:
        """The reference of this call."""
        seen = self.keys[:, :, : self.seen], self.values[:, :, : self.seen]
        return reference(self.x, self.weights, self.cos, self.sin, *seen, heads=self.heads, eps=self.eps)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> TransformerLayerInputs:
    """Normal x, keys and values, and weights such that the products have a variance of about one."""
    p = workload.parameters
    hidden, intermediate, heads, heads_kv = p["hidden"], p["intermediate"], p["heads_q"], p["heads_kv"]
    head_dim = hidden // heads
    device = generator.device

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=dtype)

    def weight(outputs: int, depth: int) -> torch.Tensor:
        return normal(outputs, depth) * depth**-0.5

    weights = {
        "input_layernorm.weight": 1 + 0.1 * normal(hidden),
        "self_attn.q_proj.weight": weight(hidden, hidden),
        "self_attn.k_proj.weight": weight(heads_kv * head_dim, hidden),
        "self_attn.v_proj.weight": weight(heads_kv * head_dim, hidden),
        "self_attn.o_proj.weight": weight(hidden, hidden),
        "post_attention_layernorm.weight": 1 + 0.1 * normal(hidden),
        "mlp.gate_proj.weight": weight(intermediate, hidden),
        "mlp.up_proj.weight": weight(intermediate, hidden),
        "mlp.down_proj.weight": weight(hidden, intermediate),
    }
    half = head_dim // 2
    frequencies = _BASE ** (-torch.arange(half, device=device, dtype=torch.float64) / half)
    positions = torch.arange(p["seq_kv"] - p["seq_q"], p["seq_kv"], device=device)
    angles = positions[:, None] * frequencies
    room = p["batch"], heads_kv, p["seq_kv"], head_dim
    return TransformerLayerInputs(
        x=normal(p["batch"], p["seq_q"], hidden),
        weights=weights,
        cos=angles.cos().float(),
        sin=angles.sin().float(),
        keys=normal(*room),
        values=normal(*room),
        heads=heads,
        intermediate=intermediate,
        eps=1e-5,
    )
