"""Implementations of paged_kv_gather; each gives keys and values."""

from collections.abc import Callable

import torch

from warpbench.output import Output
from warpbench.prepared import Prepared
from warpbench.torch_compile import compiled

from ..inputs.paged_kv_gather import PagedKvGatherInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: PagedKvGatherInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    return _of(warpwatch_operator("paged_kv_gather"), inputs)


def triton(inputs: PagedKvGatherInputs) -> Prepared:
    """Its Triton twin."""
    return _of(triton_operator("paged_kv_gather"), inputs)


def eager(inputs: PagedKvGatherInputs) -> Prepared:
    """Whole pages by the table and a transposed copy, in plain PyTorch: all sequences are full."""
    return _of(_indexed, inputs)


def torch_compile(inputs: PagedKvGatherInputs) -> Prepared:
    """The same through torch.compile."""
    return _of(compiled(_indexed, inputs.k_pages), inputs)


def _of(gather: Callable[..., Output], inputs: PagedKvGatherInputs) -> Prepared:
    pages = (inputs.k_pages, inputs.v_pages, inputs.block_table, inputs.lengths)
    return Prepared(run=lambda: gather(*pages, inputs.seq))


def _indexed(
    k_pages: torch.Tensor, v_pages: torch.Tensor, block_table: torch.Tensor, lengths: torch.Tensor, seq: int
) -> tuple[torch.Tensor, torch.Tensor]:
    heads, page_size, head_dim = k_pages.shape[1:]
    batch, each = block_table.shape

    def rows(pages: torch.Tensor) -> torch.Tensor:
        return pages[block_table].transpose(1, 2).reshape(batch, heads, each * page_size, head_dim)

    return rows(k_pages), rows(v_pages)
