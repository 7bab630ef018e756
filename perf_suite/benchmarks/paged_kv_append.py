"""paged_kv_append: kv_append's cases with caches in pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch

from .. import warpwatch_benchmark
from ..compiled.watched_kernels import Watched
from ..language_models import LLAMA_3_8B
from .kv_append import case as kv_append_case

if TYPE_CHECKING:
    from warpbench.draw import Draw


def cost(*, batch: int, heads: int, tokens: int, head_dim: int, element_bytes: int, table_entries: int) -> Cost:
    """As kv_append; a length a sequence and each entry of the page table are 4 bytes."""
    rows = 4 * batch * heads * tokens * head_dim * element_bytes
    return Cost(flops=0, bytes=rows + 4 * batch + 4 * table_entries)


def case(
    device: str,
    dtype: str,
    *,
    batch: int = 1,
    heads: int = LLAMA_3_8B.heads_kv,
    tokens: int,
    capacity: int,
    head_dim: int = 128,
    page_size: int = 64,
) -> Case:
    """kv_append's case over pages, capacity being a sequence's room in them.

    Raises ValueError as it does, for another page_size than 16 to 256, and for a capacity that is not whole pages.
    """
    if page_size not in (16, 32, 64, 128, 256):
        raise ValueError(f"page_size must be 16, 32, 64, 128 or 256, got {page_size}")
    sizes: dict[str, Any] = {"batch": batch, "heads": heads, "tokens": tokens, "head_dim": head_dim}
    contiguous = kv_append_case(device, dtype, **sizes, capacity=capacity)
    if capacity % page_size:
        raise ValueError(f"a capacity of {capacity} is not a number of whole pages of {page_size}")
    work = cost(**sizes, element_bytes=ELEMENT_BYTES[dtype], table_entries=batch * (capacity // page_size))
    return Case(
        f"{contiguous.name}-page{page_size}",
        device=device,
        dtype=dtype,
        tolerance=contiguous.tolerance,
        bytes=work.bytes,
        page_size=page_size,
        **contiguous.shape,
    )


def paged_kv_append(
    pages: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_table: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """pages (2, pages, heads, page_size, head_dim) with k's and v's rows as the last of each sequence, in float64.

    k, v (batch, heads, tokens, head_dim); position j of sequence b is row j % page_size of page
    block_table[b, j // page_size].
    """
    out = pages.double().clone()
    page_size, tokens = pages.shape[3], k.shape[2]
    for b, length in enumerate(lengths.tolist()):
        places = torch.arange(length - tokens, length, device=pages.device)
        page = block_table[b].long()[places // page_size]
        out[0, page, :, places % page_size] = k[b].double().transpose(0, 1)
        out[1, page, :, places % page_size] = v[b].double().transpose(0, 1)
    return out


class PagedKvAppend(warpwatch_benchmark.FormulaBenchmark):
    """New keys and values into pages, in place.

    pages (2, pages, heads, page_size, head_dim) holds keys and values; k, v (batch, heads, tokens, head_dim);
    block_table (batch, pages of a sequence) int32; lengths (batch) int32, the new tokens among them. All pages are
    compared: a row that changed without being new is as wrong as a new one that is missing.
    """

    watched = Watched(
        kernels=("paged_kv_append_kernel", "paged_kv_append_rows"),
        twins=("_paged_kv_append",),
        sources=("paged_kv/paged_kv.cu",),
    )
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", batch=16, tokens=2048, capacity=3072, page_size=16),  # 268 MB: the end of a prefill
        case("cuda", "fp16", batch=16, tokens=2048, capacity=3072),
        case("cuda", "bf16", batch=16, tokens=2048, capacity=3072),
        case("cuda", "fp32", batch=8, tokens=2048, capacity=3072, page_size=256),
        case("cuda", "fp16", batch=64, tokens=1, capacity=256),  # a decode step of 64 sequences
        case("cuda", "fp16", batch=1, tokens=1, capacity=4096),
        case("cpu", "fp32", batch=2, tokens=64, capacity=128, page_size=16),
    )
    smallest = {"heads": 1, "tokens": 1, "capacity": 16, "page_size": 16}
    writes = ("pages",)

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Those of `draw_pages`."""
        return draw_pages(case, draw)

    def reference(self, **inputs: torch.Tensor) -> torch.Tensor:
        """paged_kv_append, in float64."""
        return paged_kv_append(**inputs)

    @staticmethod
    def formula(*inputs: torch.Tensor) -> torch.Tensor:
        """`assigned`."""
        return assigned(*inputs)

    def call_of(
        self,
        append: Callable[..., object],
        pages: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        block_table: torch.Tensor,
        lengths: torch.Tensor,
    ) -> Callable[[], None]:
        """What is timed."""
        k_pages, v_pages = pages  # once, for a view takes the host longer than the smallest copy takes the GPU

        def run() -> None:
            append(k, v, k_pages, v_pages, block_table, lengths)

        return run


def draw_pages(case: Case, draw: Draw) -> dict[str, torch.Tensor]:
    """Normal pages, keys and values, each page of each sequence at a place of its own, sequences of any length."""
    each = case.capacity // case.page_size
    order = torch.randperm(case.batch * each, generator=draw.generator, device=draw.device)
    room = case.capacity - case.tokens + 1
    return {
        "pages": draw.activation(2, case.batch * each, case.heads, case.page_size, case.head_dim),
        "k": draw.activation(case.batch, case.heads, case.tokens, case.head_dim),
        "v": draw.activation(case.batch, case.heads, case.tokens, case.head_dim),
        "block_table": draw.constant(order.view(case.batch, each).int()),
        "lengths": draw.constant((case.tokens + draw.integers(0, room, (case.batch,))).int()),
    }


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
