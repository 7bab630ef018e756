"""Inputs of paged_kv_append."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.paged_kv_append import paged_kv_append as reference


@dataclass(slots=True, kw_only=True)
class PagedKvAppendInputs:
    """Both caches as one tensor (2, pages, heads, page_size, head_dim); k, v (batch, heads, tokens, head_dim)."""

    pages: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    block_table: torch.Tensor  # (batch, pages of a sequence) int32
    lengths: torch.Tensor  # (batch) int32, the new tokens among them

    def activations(self) -> tuple[torch.Tensor, ...]:
        """New rows, and the pages that they are written to; where the pages lie stays."""
        return (self.pages, self.k, self.v)

    def written(self) -> torch.Tensor:
        """All pages: a row beside the new ones that changed is as wrong as a new one that is missing."""
        return self.pages

    def expected(self) -> torch.Tensor:
        """The reference of this call: the pages as it leaves them."""
        return reference(self.pages, self.k, self.v, self.block_table, self.lengths)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> PagedKvAppendInputs:
    """Normal pages, keys and values, each page of each sequence at a place of its own, sequences of any length."""
    p = workload.parameters
    device = generator.device
    each = p["capacity"] // p["page_size"]

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=dtype)

    order = torch.randperm(p["batch"] * each, generator=generator, device=device)
    room = p["capacity"] - p["tokens"] + 1
    return PagedKvAppendInputs(
        pages=normal(2, p["batch"] * each, p["heads"], p["page_size"], p["head_dim"]),
        k=normal(p["batch"], p["heads"], p["tokens"], p["head_dim"]),
        v=normal(p["batch"], p["heads"], p["tokens"], p["head_dim"]),
        block_table=order.view(p["batch"], each).int(),
        lengths=(p["tokens"] + torch.randint(0, room, (p["batch"],), generator=generator, device=device)).int(),
    )
