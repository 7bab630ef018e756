"""Inputs of flash_attention."""

from dataclasses import dataclass
from typing import Any

import torch

from ..references.flash_attention import flash_attention as reference
from ..workloads.workload import Workload


@dataclass(slots=True, kw_only=True)
class AttentionInputs:
    """q (batch, heads_q, seq_q, head_dim); k, v (batch, heads_kv, seq_kv, head_dim); the default scale."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    causal: bool
    window: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments of the call; a commit that knows no window is not asked for one."""
        return {"causal": self.causal} if self.window is None else {"causal": self.causal, "window": self.window}

    def activations(self) -> tuple[torch.Tensor, ...]:
        """All three."""
        return (self.q, self.k, self.v)

    def expected(self) -> torch.Tensor:
        """The reference of this call."""
        return reference(self.q, self.k, self.v, self.causal, window=self.window)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> AttentionInputs:
    """Normal q, k, v: scores of unit variance, so that no softmax row collapses onto one key."""
    p = workload.parameters

    def normal(heads: int, seq: int) -> torch.Tensor:
        shape = (p["batch"], heads, seq, p["head_dim"])
        return torch.randn(shape, generator=generator, device=generator.device, dtype=dtype)

    return AttentionInputs(
        q=normal(p["heads_q"], p["seq_q"]),
        k=normal(p["heads_kv"], p["seq_kv"]),
        v=normal(p["heads_kv"], p["seq_kv"]),
        causal=bool(p["causal"]),
        window=p.get("window"),
    )
