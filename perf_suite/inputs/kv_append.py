"""Inputs of kv_append."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.kv_append import kv_append as reference


@dataclass(slots=True, kw_only=True)
class KvAppendInputs:
    """Both caches as one tensor (2, batch, heads, capacity, head_dim); k, v (batch, heads, tokens, head_dim)."""

    caches: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    positions: torch.Tensor  # (batch) int64: where each sequence's first new token goes

    def activations(self) -> tuple[torch.Tensor, ...]:
        """New rows, and the caches that they are written to."""
        return (self.caches, self.k, self.v)

    def written(self) -> torch.Tensor:
        """The caches: a row beside the new ones that changed is as wrong as a new one that is missing."""
        return self.caches

    def expected(self) -> torch.Tensor:
        """The reference of this call: the caches as it leaves them."""
        return reference(self.caches, self.k, self.v, self.positions)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> KvAppendInputs:
    """Normal caches, keys and values; sequences begin where they have room, each elsewhere if there is enough."""
    p = workload.parameters
    device = generator.device

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=dtype)

    room = p["capacity"] - p["tokens"] + 1
    order = torch.randperm(max(room, p["batch"]), generator=generator, device=device)
    return KvAppendInputs(
        caches=normal(2, p["batch"], p["heads"], p["capacity"], p["head_dim"]),
        k=normal(p["batch"], p["heads"], p["tokens"], p["head_dim"]),
        v=normal(p["batch"], p["heads"], p["tokens"], p["head_dim"]),
        positions=order[: p["batch"]] % room,
    )
