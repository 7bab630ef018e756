"""paged_decode_attention, a decode step over a cache in pages: decode_attention's, and a block table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case, Prepared, UnavailableError, baseline
from warpbench.cost import ELEMENT_BYTES
from warpbench.lazy import torch

from .. import warpwatch_benchmark
from ..compiled.watched_kernels import Watched
from ..flash_attention_package import flash_attention_package
from ..warpwatch_operators import library
from . import decode_attention

if TYPE_CHECKING:
    from warpbench.draw import Draw


def case(
    device: str,
    dtype: str,
    *,
    batch: int = 1,
    heads: int = 32,
    heads_kv: int | None = None,  # as many as heads
    seq_len: int = 1,  # new tokens
    seq_len_kv: int,  # keys of each sequence, the new tokens' own among them
    head_dim: int = 128,
    page_size: int = 64,
) -> Case:
    """decode_attention's case over pages. Raises ValueError as it does, and for another page_size than 16 to 256."""
    if page_size not in (16, 32, 64, 128, 256):
        raise ValueError(f"page_size must be 16, 32, 64, 128 or 256, got {page_size}")
    contiguous = decode_attention.case(
        device,
        dtype,
        batch=batch,
        heads=heads,
        heads_kv=heads_kv,
        seq_len=seq_len,
        seq_len_kv=seq_len_kv,
        head_dim=head_dim,
    )
    work = decode_attention.cost(
        batch=batch,
        heads_q=heads,
        heads_kv=contiguous.heads_kv,
        seq_q=seq_len,
        keys=seq_len_kv,
        head_dim=head_dim,
        element_bytes=ELEMENT_BYTES[dtype],
        table_entries=batch * -(-seq_len_kv // page_size),
    )
    return Case(
        f"{contiguous.name}-page{page_size}",
        device=device,
        dtype=dtype,
        tolerance=contiguous.tolerance,
        bytes=work.bytes,
        flops=work.flops,
        **contiguous.shape,
        page_size=page_size,
    )


class PagedDecodeAttention(warpwatch_benchmark.OperatorBenchmark):
    """decode_attention over keys and values in pages; out like q.

    q (batch, heads_q, seq_q, head_dim); k_pages, v_pages (pages, heads_kv, page_size, head_dim) in any order;
    block_table int32 (batch, pages of a sequence); lengths int32 (batch).
    """

    watched = Watched(
        kernels=(
            "paged_decode_attention_fp32_kernel",
            "paged_decode_attention_sm75_kernel",
            "paged_decode_attention_sm80_kernel",
        ),
        twins=("_paged_decode_attention", "_paged_combine_parts"),
        sources=(
            "paged_decode_attention/paged_decode_attention_fp32.cu",
            "paged_decode_attention/paged_decode_attention_sm75.cu",
            "paged_decode_attention/paged_decode_attention_sm80.cu",
        ),
    )
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=1024, page_size=64),
        case("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=4096, page_size=16),
        case("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=4096, page_size=64),
        case("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=4096, page_size=256),
        case("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=16384, page_size=64),
        case("cpu", "fp32", batch=2, heads=8, heads_kv=2, seq_len_kv=500, head_dim=64, page_size=16),
    )
    smallest = {"heads": 1, "seq_len_kv": 16, "head_dim": 64, "page_size": 16}
    reference_in_float64 = False  # it widens one head at a time

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal q, keys and values, as in decode_attention; the pages of a sequence lie in random order, and stay."""
        each = -(-case.seq_kv // case.page_size)
        pages = (case.batch * each, case.heads_kv, case.page_size, case.head_dim)
        order = torch.randperm(case.batch * each, generator=draw.generator, device=draw.device)
        lengths = torch.full((case.batch,), case.seq_kv, dtype=torch.int32, device=draw.device)
        return {
            "q": draw.activation(case.batch, case.heads_q, case.seq_q, case.head_dim),
            "k_pages": draw.activation(*pages),
            "v_pages": draw.activation(*pages),
            "block_table": draw.constant(order.view(case.batch, each).int()),
            "lengths": draw.constant(lengths),
        }

    def reference(self, **inputs: torch.Tensor) -> torch.Tensor:
        """The reference of decode_attention over the gathered pages, in float64."""
        q, k_pages, v_pages, block_table, lengths = inputs.values()
        k, v = _gathered(k_pages, block_table), _gathered(v_pages, block_table)
        return decode_attention.decode_attention(q, k, v, lengths)

    @baseline(binds=True)
    def sdpa(self, **inputs: torch.Tensor) -> Prepared:
        """What PyTorch has for pages: gathering them by the table, then scaled_dot_product_attention.

        It gets a mask where not every token sees every place of the pages, and chooses its backend by itself.
        """
        q, k_pages, v_pages, block_table, lengths = inputs.values()
        hidden = _hidden(q, k_pages, block_table, lengths)
        mask = None if hidden is None else ~hidden
        grouped = q.shape[1] != k_pages.shape[1]
        attention = torch.nn.functional.scaled_dot_product_attention
        k, v = _gathered(k_pages, block_table), _gathered(v_pages, block_table)
        choice = torch._fused_sdp_choice(q, k, v, attn_mask=mask, enable_gqa=grouped)

        def run() -> torch.Tensor:
            k, v = _gathered(k_pages, block_table), _gathered(v_pages, block_table)
            return attention(q, k, v, attn_mask=mask, enable_gqa=grouped)

        return Prepared(run=run, backend=torch.nn.attention.SDPBackend(choice).name.lower())

    @baseline(binds=True)
    def eager(self, **inputs: torch.Tensor) -> Callable[[], Any]:
        """The same gathering, then scores, mask, softmax and product in plain PyTorch."""
        q, k_pages, v_pages, block_table, lengths = inputs.values()
        batch, heads_q, seq_q, head_dim = q.shape
        heads_kv = k_pages.shape[1]
        group = heads_q // heads_kv
        hidden = _hidden(q, k_pages, block_table, lengths)
        of_rows = None if hidden is None else hidden.repeat(1, 1, group, 1)

        def run() -> torch.Tensor:
            k, v = _gathered(k_pages, block_table), _gathered(v_pages, block_table)
            packed = q.reshape(batch, heads_kv, group * seq_q, head_dim)
            scores = (packed @ k.transpose(-2, -1)) * head_dim**-0.5
            if of_rows is not None:
                scores = scores.masked_fill(of_rows, -torch.inf)
            return (torch.softmax(scores, dim=-1) @ v).view(q.shape)

        return run

    @baseline(binds=True, devices=["cuda"])
    def flash_attn(self, **inputs: torch.Tensor) -> Prepared:
        """FlashAttention's flash_attn_with_kvcache. Raises UnavailableError for fp32, version 2 for smaller pages."""
        q, k_pages, v_pages, block_table, lengths = inputs.values()
        package = flash_attention_package()
        if q.dtype == torch.float32 or k_pages.shape[2] % package.page_size:
            raise UnavailableError(
                f"FlashAttention takes fp16 and bf16, and pages of a multiple of {package.page_size} places"
            )
        packed = tuple(x.transpose(1, 2) for x in (q, k_pages, v_pages))  # (batch or pages, seq, heads, head_dim)
        options = {"cache_seqlens": lengths, package.page_table: block_table, "causal": True}
        return Prepared(run=lambda: package.with_cache(*packed, **options).transpose(1, 2), backend=package.backend)

    @baseline(binds=True, devices=["cuda"])
    def flashinfer(self, **inputs: torch.Tensor) -> Prepared:
        """FlashInfer's BatchDecodeWithPagedKVCacheWrapper, planned ahead. Raises UnavailableError for more tokens."""
        q, k_pages, v_pages, block_table, lengths = inputs.values()
        from flashinfer import BatchDecodeWithPagedKVCacheWrapper

        if q.shape[2] != 1 or q.dtype == torch.float32:
            raise UnavailableError("FlashInfer's decode takes one token a sequence, in fp16 or bf16")
        _, heads_kv, page_size, head_dim = k_pages.shape
        batch, each = block_table.shape
        wrapper = BatchDecodeWithPagedKVCacheWrapper(
            torch.empty(128 * 2**20, dtype=torch.uint8, device=q.device), kv_layout="HND"
        )
        wrapper.plan(
            torch.arange(0, batch * each + 1, each, dtype=torch.int32, device=q.device),
            block_table.flatten(),
            lengths - (each - 1) * page_size,
            q.shape[1],
            heads_kv,
            head_dim,
            page_size,
            q_data_type=q.dtype,
            kv_data_type=q.dtype,
        )
        return Prepared(
            run=lambda: wrapper.run(q[:, :, 0], (k_pages, v_pages))[:, :, None], backend=library("flashinfer-python")
        )


def _gathered(pages: torch.Tensor, block_table: torch.Tensor) -> torch.Tensor:
    """Keys or values as (batch, heads_kv, room, head_dim), room being that of whole pages."""
    batch, each = block_table.shape
    _, heads, page_size, head_dim = pages.shape
    rows = pages[block_table.long()].transpose(1, 2)
    return rows.reshape(batch, heads, each * page_size, head_dim)


def _hidden(
    q: torch.Tensor, pages: torch.Tensor, block_table: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor | None:
    """(batch, 1, seq_q, room): which key each token does not see; None where one token sees all places of the pages."""
    room, seq_q = block_table.shape[1] * pages.shape[2], q.shape[2]
    if seq_q == 1 and bool((lengths == room).all()):
        return None
    last = lengths[:, None] - seq_q + torch.arange(seq_q, device=q.device)  # (batch, seq_q)
    return (torch.arange(room, device=q.device) > last[..., None])[:, None]
