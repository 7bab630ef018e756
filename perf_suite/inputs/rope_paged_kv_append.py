"""Inputs of rope_paged_kv_append."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.paged_kv_append import paged_kv_append as append_reference
from ..references.rope import rope as rope_reference
from ..references.rope import rope_computed as rope_computed_reference
from . import paged_kv_append
from .paged_kv_append import PagedKvAppendInputs

_BASE = 10000.0


@dataclass(slots=True, kw_only=True)
class RopePagedKvAppendInputs(PagedKvAppendInputs):
    """As paged_kv_append's, and where the angles come from: tables (capacity, head_dim / 2) fp32, or positions."""

    cos: torch.Tensor
    sin: torch.Tensor
    interleaved: bool
    computed: bool
    positions: torch.Tensor  # (batch) int64, of each first row
    base: float = _BASE

    def new_tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The tables' rows of the new keys, where all sequences stand at one position."""
        start = int(self.positions[0])
        here = slice(start, start + self.k.shape[2])
        return self.cos[here], self.sin[here]

    def expected(self) -> torch.Tensor:
        """The reference of this call: the pages as it leaves them."""
        if self.computed:
            turned = rope_computed_reference(self.k, self.positions, self.base, self.interleaved)
        else:
            turned = rope_reference(self.k, *self.new_tables(), self.interleaved)
        return append_reference(self.pages, turned, self.v, self.block_table, self.lengths)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> RopePagedKvAppendInputs:
    """paged_kv_append's; where there are tables all sequences stand where the first does."""
    p = workload.parameters
    rows = paged_kv_append.make(workload, generator, dtype)
    computed = bool(p.get("computed"))
    lengths = rows.lengths if computed else rows.lengths[:1].expand(p["batch"]).contiguous()
    half = p["head_dim"] // 2
    frequencies = _BASE ** (-torch.arange(half, device=generator.device, dtype=torch.float64) / half)
    angles = torch.arange(p["capacity"], device=generator.device)[:, None] * frequencies
    return RopePagedKvAppendInputs(
        pages=rows.pages,
        k=rows.k,
        v=rows.v,
        block_table=rows.block_table,
        lengths=lengths,
        cos=angles.cos().float(),
        sin=angles.sin().float(),
        interleaved=bool(p["interleaved"]),
        computed=computed,
        positions=lengths.long() - p["tokens"],
    )
