"""Inputs of paged_kv_gather."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.paged_kv_gather import paged_kv_gather as reference


@dataclass(slots=True, kw_only=True)
class PagedKvGatherInputs:
    """k_pages, v_pages (pages, heads, page_size, head_dim); every sequence holds seq keys."""

    k_pages: torch.Tensor
    v_pages: torch.Tensor
    block_table: torch.Tensor  # (batch, pages of a sequence) int32
    lengths: torch.Tensor  # (batch) int32
    seq: int

    def activations(self) -> tuple[torch.Tensor, ...]:
        """The pages' content; where they lie stays."""
        return (self.k_pages, self.v_pages)

    def expected(self) -> tuple[torch.Tensor, ...]:
        """The reference of this call."""
        return reference(self.k_pages, self.v_pages, self.block_table, self.lengths, self.seq)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> PagedKvGatherInputs:
    """Normal pages, each of each sequence at a place of its own; all sequences are full."""
    p = workload.parameters
    device = generator.device
    each = p["seq_kv"] // p["page_size"]
    shape = (p["batch"] * each, p["heads"], p["page_size"], p["head_dim"])
    order = torch.randperm(p["batch"] * each, generator=generator, device=device)
    return PagedKvGatherInputs(
        k_pages=torch.randn(shape, generator=generator, device=device, dtype=dtype),
        v_pages=torch.randn(shape, generator=generator, device=device, dtype=dtype),
        block_table=order.view(p["batch"], each).int(),
        lengths=torch.full((p["batch"],), p["seq_kv"], dtype=torch.int32, device=device),
        seq=p["seq_kv"],
    )
