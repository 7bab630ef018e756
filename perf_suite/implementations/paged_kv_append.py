"""Implementations of paged_kv_append; each works in place and returns all pages."""

from collections.abc import Callable

import torch

from warpbench.prepared import Prepared
from warpbench.torch_compile import compiled

from ..inputs.paged_kv_append import PagedKvAppendInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: PagedKvAppendInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    return _in_place(warpwatch_operator("paged_kv_append"), inputs)


def triton(inputs: PagedKvAppendInputs) -> Prepared:
    """Its Triton twin."""
    return _in_place(triton_operator("paged_kv_append"), inputs)


def eager(inputs: PagedKvAppendInputs) -> Prepared:
    """Indexed assignment in plain PyTorch."""
    return _in_place(assigned, inputs)


def torch_compile(inputs: PagedKvAppendInputs) -> Prepared:
    """The same through torch.compile."""
    return _in_place(compiled(assigned, inputs.pages, inputs.k), inputs)


def _in_place(append: Callable[..., object], inputs: PagedKvAppendInputs) -> Prepared:
    k_pages, v_pages = inputs.pages

    def run() -> torch.Tensor:
        append(inputs.k, inputs.v, k_pages, v_pages, inputs.block_table, inputs.lengths)
        return inputs.pages

    return Prepared(run=run)


def assigned(
    k: torch.Tensor,
    v: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
) -> torch.Tensor:
    """Indexed assignment in plain PyTorch, in place; k_pages."""
    heads, tokens = k.shape[1:3]
    page_size = k_pages.shape[2]
    places = lengths[:, None] - tokens + torch.arange(tokens, device=k.device)
    page = block_table.gather(1, places // page_size)[:, None]
    row = (places % page_size)[:, None]
    each_head = torch.arange(heads, device=k.device)[None, :, None]
    k_pages[page, each_head, row] = k
    v_pages[page, each_head, row] = v
    return k_pages
