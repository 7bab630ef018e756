"""Inputs of decode_attention."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.decode_attention import decode_attention as reference


@dataclass(slots=True, kw_only=True)
class DecodeInputs:
    """q (batch, heads_q, seq_q, head_dim); k, v (batch, heads_kv, seq_kv, head_dim), full; the default scale."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor

    def activations(self) -> tuple[torch.Tensor, ...]:
        """All three: the cache grows with each step."""
        return (self.q, self.k, self.v)

    def expected(self) -> torch.Tensor:
        """The reference of this call."""
        return reference(self.q, self.k, self.v)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> DecodeInputs:
    """Normal q, k, v: scores of unit variance, so that no softmax row collapses onto one key."""
    p = workload.parameters

    def normal(heads: int, seq: int) -> torch.Tensor:
        shape = (p["batch"], heads, seq, p["head_dim"])
        return torch.randn(shape, generator=generator, device=generator.device, dtype=dtype)

    return DecodeInputs(
        q=normal(p["heads_q"], p["seq_q"]),
        k=normal(p["heads_kv"], p["seq_kv"]),
        v=normal(p["heads_kv"], p["seq_kv"]),
    )
