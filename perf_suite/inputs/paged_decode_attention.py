"""Inputs of paged_decode_attention."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.decode_attention import decode_attention as reference


@dataclass(slots=True, kw_only=True)
class PagedDecodeInputs:
    """q (batch, heads_q, seq_q, head_dim); pages (pages, heads_kv, page_size, head_dim) in any order; int32 table."""

    q: torch.Tensor
    k_pages: torch.Tensor
    v_pages: torch.Tensor
    block_table: torch.Tensor  # (batch, pages of a sequence)
    lengths: torch.Tensor  # (batch), all the same

    def activations(self) -> tuple[torch.Tensor, ...]:
        """Queries and pages; where the pages lie stays."""
        return (self.q, self.k_pages, self.v_pages)

    def contiguous(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values as (batch, heads_kv, room, head_dim), room being that of whole pages."""
        batch, pages = self.block_table.shape
        _, heads, page_size, head_dim = self.k_pages.shape

        def gathered(x: torch.Tensor) -> torch.Tensor:
            rows = x[self.block_table.long()].transpose(1, 2)
            return rows.reshape(batch, heads, pages * page_size, head_dim)

        return gathered(self.k_pages), gathered(self.v_pages)

    def expected(self) -> torch.Tensor:
        """The reference of this call."""
        return reference(self.q, *self.contiguous(), self.lengths)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> PagedDecodeInputs:
    """Normal q, keys and values, as in decode_attention, each page of each sequence at a place of its own."""
    p = workload.parameters
    device = generator.device
    each = -(-p["seq_kv"] // p["page_size"])

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=dtype)

    pages = (p["batch"] * each, p["heads_kv"], p["page_size"], p["head_dim"])
    order = torch.randperm(p["batch"] * each, generator=generator, device=device)
    return PagedDecodeInputs(
        q=normal(p["batch"], p["heads_q"], p["seq_q"], p["head_dim"]),
        k_pages=normal(*pages),
        v_pages=normal(*pages),
        block_table=order.view(p["batch"], each).int(),
        lengths=torch.full((p["batch"],), p["seq_kv"], dtype=torch.int32, device=device),
    )
