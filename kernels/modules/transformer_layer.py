"""A Llama-style decoder layer built from our kernels."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import nn

from ..operators.rms_norm import add_rms_norm, rms_norm
from ..operators.rope import rope_
from .causal_attention import causal_attention
from .gradient import refuse_gradient
from .linear_activation import Linear, SwiGLU, holds_its_weight


class AnyKVCache(Protocol):
    """KVCache, GraphKVCache, PagedKVCache, and other caches with this method."""

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None) -> torch.Tensor:
        """Append k, v (batch, heads_kv, new, head_dim); causal attention of q, the same tokens, to all; like q."""


class SelfAttention(nn.Module):
    """Causal self-attention of x (batch, seq, hidden), including a cache's positions, with its four projections.

    heads_kv divides heads, and defaults to it. Children are named as in transformers: q_proj, k_proj, v_proj, o_proj.
    """

    def __init__(
        self,
        hidden: int,
        heads: int,
        heads_kv: int | None = None,
        *,
        bias: bool = False,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        heads_kv = heads if heads_kv is None else heads_kv
        if hidden % heads or heads % heads_kv:
            raise ValueError(
                f"SelfAttention: heads must divide hidden and heads_kv must divide heads, "
                f"got hidden {hidden}, heads {heads}, heads_kv {heads_kv}"
            )
        self.head_dim = hidden // heads
        kv = heads_kv * self.head_dim
        self.q_proj = Linear(hidden, hidden, bias, dtype=dtype, device=device)
        self.k_proj = Linear(hidden, kv, bias, dtype=dtype, device=device)
        self.v_proj = Linear(hidden, kv, bias, dtype=dtype, device=device)
        self.o_proj = Linear(hidden, hidden, bias, dtype=dtype, device=device)

    def forward(
        self,
        x: torch.Tensor,
        cos: torch.Tensor | None = None,
        sin: torch.Tensor | None = None,
        cache: AnyKVCache | None = None,
    ) -> torch.Tensor:
        """(batch, seq, hidden). cos, sin (seq, head_dim / 2) in float32 rotate q and k, half-split (NeoX)."""
        q, k, v = (
            projection(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        if cos is not None and sin is not None:
            for turned in (q, k):  # in place: a cache takes k and v in one launch, o_proj attention's output
                rope_(turned, cos, sin)
        out = causal_attention(q, k, v) if cache is None else cache.attend(q, k, v)
        return self.o_proj(out.transpose(1, 2).flatten(2))


class TransformerLayer(nn.Module):
    """h = x + attention(norm(x)), then h + mlp(norm(h)): RMS norms, rotary positions, SwiGLU, no biases.

    Children are named as in transformers' LlamaDecoderLayer, whose state_dict fits. For inference: backward raises
    RuntimeError.
    """

    def __init__(
        self,
        hidden: int,
        intermediate: int,
        heads: int,
        heads_kv: int | None = None,
        *,
        eps: float = 1e-5,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.self_attn = SelfAttention(hidden, heads, heads_kv, dtype=dtype, device=device)
        self.mlp = _GatedMLP(hidden, intermediate, dtype=dtype, device=device)
        self.input_layernorm = nn.RMSNorm(hidden, eps, dtype=dtype, device=device)
        self.post_attention_layernorm = nn.RMSNorm(hidden, eps, dtype=dtype, device=device)
        self.eps = eps

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, cache: AnyKVCache | None = None
    ) -> torch.Tensor:
        """The output for x (batch, seq, hidden); cos, sin (seq, head_dim / 2) in float32."""
        normed = rms_norm(x, self.input_layernorm.weight, eps=self.eps)
        attended = self.self_attn(normed, cos, sin, cache)
        normed, x = add_rms_norm(attended, x, self.post_attention_layernorm.weight, eps=self.eps)
        return refuse_gradient(self.mlp(normed, x), "TransformerLayer", "train with the layers of transformers")


class _GatedMLP(SwiGLU):
    """residual + down_proj(swiglu(x))."""

    def __init__(
        self,
        hidden: int,
        intermediate: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(hidden, intermediate, dtype=dtype, device=device)
        self.down_proj = nn.Linear(intermediate, hidden, False, dtype=dtype, device=device)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """`residual`, contiguous, may be overwritten and returned: cuBLAS accumulates into it, in one launch."""
        hidden, down = super().forward(x), self.down_proj
        if not holds_its_weight(down):
            return residual + down(hidden)
        return residual.flatten(0, -2).addmm_(hidden.flatten(0, -2), down.weight.T).view_as(residual)
