"""Inputs of flash_attention_varlen."""

import itertools
from dataclasses import dataclass
from typing import Any

import torch

from warpbench.workload import Workload

from ..references.flash_attention_varlen import flash_attention_varlen as reference
from ..workloads.flash_attention_varlen import mixed_lengths


@dataclass(slots=True, kw_only=True)
class PackedAttentionInputs:
    """q (total, heads_q, head_dim); k, v (total, heads_kv, head_dim); queries and keys of a sequence are as many."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    lengths: tuple[int, ...]
    cu_seqlens: torch.Tensor  # int32: 0, then where each sequence ends
    causal: bool

    @property
    def arguments(self) -> tuple[Any, ...]:
        """All of the call but its options."""
        longest = max(self.lengths)
        return (self.q, self.k, self.v, self.cu_seqlens, self.cu_seqlens, longest, longest)

    def sequences(self) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """q, k and v of each sequence, as views (1, heads, length, head_dim)."""
        q, k, v = (
            [x.transpose(0, 1)[None] for x in packed.split(list(self.lengths))] for packed in (self.q, self.k, self.v)
        )
        return list(zip(q, k, v, strict=True))

    def activations(self) -> tuple[torch.Tensor, ...]:
        """Queries, keys and values; the lengths stay."""
        return (self.q, self.k, self.v)

    def expected(self) -> torch.Tensor:
        """The reference of this call."""
        return reference(self.q, self.k, self.v, self.lengths, self.lengths, self.causal)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> PackedAttentionInputs:
    """Normal q, k, v, as in flash_attention."""
    p = workload.parameters
    lengths = mixed_lengths(p["batch"], p["shortest"], p["longest"])

    def normal(heads: int) -> torch.Tensor:
        shape = (sum(lengths), heads, p["head_dim"])
        return torch.randn(shape, generator=generator, device=generator.device, dtype=dtype)

    ends = [0, *itertools.accumulate(lengths)]
    return PackedAttentionInputs(
        q=normal(p["heads_q"]),
        k=normal(p["heads_kv"]),
        v=normal(p["heads_kv"]),
        lengths=lengths,
        cu_seqlens=torch.tensor(ends, dtype=torch.int32).to(generator.device),
        causal=bool(p["causal"]),
    )
