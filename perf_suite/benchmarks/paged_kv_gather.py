"""paged_kv_gather: moves bytes and computes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch

from .. import warpwatch_benchmark
from ..compiled.watched_kernels import Watched
from ..language_models import LLAMA_3_8B

if TYPE_CHECKING:
    from warpbench.draw import Draw

# A copy is exact. One wrong element among all of a case's makes an error far above this.
_TOLERANCE = 1e-9


def cost(*, batch: int, heads: int, keys: int, head_dim: int, element_bytes: int, table_entries: int) -> Cost:
    """No FLOP; keys and values read out of their pages and written; a length and a table's entry are 4 bytes."""
    rows = 4 * batch * heads * keys * head_dim * element_bytes
    return Cost(flops=0, bytes=rows + 4 * batch + 4 * table_entries)


def case(
    device: str,
    dtype: str,
    *,
    batch: int = 1,
    heads: int = LLAMA_3_8B.heads_kv,
    seq_len: int,
    head_dim: int = 128,
    page_size: int = 64,
) -> Case:
    """All keys and values of so many sequences of seq_len, their pages anywhere.

    Raises ValueError for another page_size than 16 to 256, and for a seq_len that is not whole pages.
    """
    if page_size not in (16, 32, 64, 128, 256):
        raise ValueError(f"page_size must be 16, 32, 64, 128 or 256, got {page_size}")
    if seq_len % page_size:
        raise ValueError(f"a seq_len of {seq_len} is not a number of whole pages of {page_size}")
    sizes: dict[str, Any] = {"batch": batch, "heads": heads, "head_dim": head_dim}
    table_entries = batch * (seq_len // page_size)
    work = cost(**sizes, keys=seq_len, element_bytes=ELEMENT_BYTES[dtype], table_entries=table_entries)
    return Case(
        f"{device}-{dtype}-b{batch}-h{heads}-s{seq_len}-d{head_dim}-page{page_size}",
        device=device,
        dtype=dtype,
        tolerance=_TOLERANCE,
        bytes=work.bytes,
        seq_kv=seq_len,
        page_size=page_size,
        **sizes,
    )


def paged_kv_gather(
    k_pages: torch.Tensor, v_pages: torch.Tensor, block_table: torch.Tensor, lengths: torch.Tensor, seq: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions 0 .. seq - 1 of each sequence as (batch, heads, seq, head_dim) in float64, zeros from its length on.

    k_pages, v_pages (pages, heads, page_size, head_dim); position j of sequence b is row j % page_size of page
    block_table[b, j // page_size].
    """
    page_size = k_pages.shape[2]
    gathered = []
    for pages in (k_pages, v_pages):
        out = torch.zeros(
            len(block_table), pages.shape[1], seq, pages.shape[3], dtype=torch.float64, device=pages.device
        )
        for b, length in enumerate(lengths.tolist()):
            places = torch.arange(min(length, seq), device=pages.device)
            page = block_table[b].long()[places // page_size]
            out[b, :, : len(places)] = pages[page, :, places % page_size].transpose(0, 1).double()
        gathered.append(out)
    return gathered[0], gathered[1]


class PagedKvGather(warpwatch_benchmark.FormulaBenchmark):
    """Keys and values of sequences out of their pages.

    k_pages, v_pages (pages, heads, page_size, head_dim); block_table (batch, pages of a sequence) int32;
    lengths (batch) int32; keys and values out (batch, heads, seq, head_dim).
    """

    watched = Watched(
        kernels=("paged_kv_gather_kernel", "paged_kv_gather_rows"), twins=("_paged_kv_gather",), sources=()
    )
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", batch=8, seq_len=4096, page_size=16),  # 268 MB
        case("cuda", "fp16", batch=8, seq_len=4096),
        case("cuda", "fp32", batch=1, seq_len=4096, page_size=256),
        case("cpu", "fp32", batch=2, seq_len=256, page_size=16),
    )
    smallest = {"heads": 1, "seq_len": 16, "page_size": 16}

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal pages, each of each sequence at a place of its own; all sequences are full."""
        each = case.seq_kv // case.page_size
        order = torch.randperm(case.batch * each, generator=draw.generator, device=draw.device)
        lengths = torch.full((case.batch,), case.seq_kv, dtype=torch.int32, device=draw.device)
        return {
            "k_pages": draw.activation(case.batch * each, case.heads, case.page_size, case.head_dim),
            "v_pages": draw.activation(case.batch * each, case.heads, case.page_size, case.head_dim),
            "block_table": draw.constant(order.view(case.batch, each).int()),
            "lengths": draw.constant(lengths),
            "seq": case.seq_kv,
        }

    def reference(self, **inputs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """paged_kv_gather, in float64."""
        return paged_kv_gather(**inputs)

    @staticmethod
    def formula(
        k_pages: torch.Tensor, v_pages: torch.Tensor, block_table: torch.Tensor, lengths: torch.Tensor, seq: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Whole pages by the table and a transposed copy, in plain PyTorch: all sequences are full."""
        heads, page_size, head_dim = k_pages.shape[1:]
        batch, each = block_table.shape

        def rows(pages: torch.Tensor) -> torch.Tensor:
            return pages[block_table].transpose(1, 2).reshape(batch, heads, each * page_size, head_dim)

        return rows(k_pages), rows(v_pages)
