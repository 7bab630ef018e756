"""Inputs of flash_attention."""

from dataclasses import dataclass
from typing import Any

import torch

from warpbench.workload import Workload

from ..references.flash_attention import flash_attention as reference


@dataclass(slots=True, kw_only=True)
class AttentionInputs:
    """q (batch, heads_q, seq_q, head_dim); k, v (batch, heads_kv, seq_kv, head_dim); the default scale."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    causal: bool
    window: int | None = None
    bias: torch.Tensor | None = None  # (1, heads_q or 1, seq_q, seq_kv)

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments of the call; a commit that knows no window or bias is not asked for one."""
        others = {"window": self.window, "bias": self.bias}
        return {"causal": self.causal, **{name: value for name, value in others.items() if value is not None}}

    def activations(self) -> tuple[torch.Tensor, ...]:
        """All three, and the bias."""
        return (self.q, self.k, self.v) if self.bias is None else (self.q, self.k, self.v, self.bias)

    def expected(self) -> torch.Tensor:
        """The reference of this call."""
        return reference(self.q, self.k, self.v, self.causal, window=self.window, bias=self.bias)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> AttentionInputs:
    """Normal q, k, v: scores of unit variance, so that no softmax row collapses onto one key."""
    p = workload.parameters

    def normal(heads: int, seq: int) -> torch.Tensor:
        shape = (p["batch"], heads, seq, p["head_dim"])
        return torch.randn(shape, generator=generator, device=generator.device, dtype=dtype)

    bias = None
    if "biases" in p:
        shape = (1, p["biases"], p["seq_q"], p["seq_kv"])
        bias = torch.randn(shape, generator=generator, device=generator.device, dtype=dtype)
    return AttentionInputs(
        q=normal(p["heads_q"], p["seq_q"]),
        k=normal(p["heads_kv"], p["seq_kv"]),
        v=normal(p["heads_kv"], p["seq_kv"]),
        causal=bool(p["causal"]),
        window=p.get("window"),
        bias=bias,
    )
