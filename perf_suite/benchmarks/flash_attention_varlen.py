"""flash_attention_varlen: prompts of many lengths, packed one behind the other; compute-bound."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case, Prepared, UnavailableError, baseline, kernel
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch

from .. import warpwatch_benchmark
from ..compiled.watched_kernels import Watched
from ..flash_attention_package import flash_attention_package
from ..language_models import LLAMA_2_7B, LLAMA_3_8B
from ..warpwatch_operators import triton_operator, warpwatch_operator
from . import flash_attention

if TYPE_CHECKING:
    from warpbench.draw import Draw

_STRIDE = 7  # from one length to the next: neither sorted nor random


def mixed_lengths(batch: int, shortest: int, longest: int) -> tuple[int, ...]:
    """Evenly spaced logarithms from shortest to longest, as requests to a language model come: most of them short."""
    if batch == 1:
        return (longest,)
    ranks = sorted(range(batch), key=lambda i: (i * _STRIDE % batch, i))
    return tuple(round(shortest * (longest / shortest) ** (rank / (batch - 1))) for rank in ranks)


def cost(
    *, lengths: tuple[int, ...], heads_q: int, heads_kv: int, head_dim: int, causal: bool, element_bytes: int
) -> Cost:
    """flash_attention of each sequence, and batch + 1 sums of lengths of 4 bytes for queries and for keys."""
    each = [
        flash_attention.cost(
            batch=1,
            heads_q=heads_q,
            heads_kv=heads_kv,
            seq_q=length,
            seq_kv=length,
            head_dim=head_dim,
            causal=causal,
            element_bytes=element_bytes,
        )
        for length in lengths
    ]
    return Cost(flops=sum(one.flops for one in each), bytes=sum(one.bytes for one in each) + 2 * 4 * (len(lengths) + 1))


def case(
    device: str,
    dtype: str,
    *,
    batch: int = 1,
    heads: int = 32,
    heads_kv: int | None = None,  # as many as heads
    shortest: int,
    longest: int,
    head_dim: int = 128,
    causal: bool = True,
) -> Case:
    """Attention of `batch` sequences of mixed_lengths. Raises ValueError for heads that share key heads unevenly."""
    heads_kv = heads if heads_kv is None else heads_kv
    if heads % heads_kv:
        raise ValueError(f"heads ({heads}) must be a multiple of heads_kv ({heads_kv})")
    grouped = f"-kv{heads_kv}" if heads_kv != heads else ""
    mask = "causal" if causal else "full"
    work = cost(
        lengths=mixed_lengths(batch, shortest, longest),
        heads_q=heads,
        heads_kv=heads_kv,
        head_dim=head_dim,
        causal=causal,
        element_bytes=ELEMENT_BYTES[dtype],
    )
    return Case(
        f"{device}-{dtype}-b{batch}-h{heads}{grouped}-s{shortest}to{longest}-d{head_dim}-{mask}",
        device=device,
        dtype=dtype,
        tolerance=flash_attention.TOLERANCE[dtype],
        bytes=work.bytes,
        flops=work.flops,
        batch=batch,
        heads_q=heads,
        heads_kv=heads_kv,
        shortest=shortest,
        longest=longest,
        head_dim=head_dim,
        causal=causal,
    )


class FlashAttentionVarlen(warpwatch_benchmark.WarpwatchBenchmark):
    """flash_attention of each of several sequences, one behind the other in memory; out like q.

    q (total, heads_q, head_dim); k, v (total, heads_kv, head_dim); queries and keys of a sequence are as many.
    cu_seqlens, int32 (batch + 1): 0, then the end of each sequence.
    """

    watched = Watched(  # flash_attention's kernels
        kernels=(), twins=("_flash_attention_varlen",), sources=()
    )
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", batch=16, **LLAMA_2_7B.attention_heads, shortest=32, longest=4096, causal=True),
        case("cuda", "fp16", batch=16, **LLAMA_3_8B.attention_heads, shortest=32, longest=4096, causal=True),
        case("cpu", "fp32", batch=5, heads=4, heads_kv=2, shortest=8, longest=128, head_dim=64),
    )
    smallest = {"batch": 2, "heads": 1, "shortest": 8, "longest": 16, "head_dim": 64}
    reference_in_float64 = False  # it widens one head at a time

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal q, k, v, as in flash_attention; the lengths stay."""
        lengths = mixed_lengths(case.batch, case.shortest, case.longest)
        ends = torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32).to(draw.device)
        return {
            "q": draw.activation(sum(lengths), case.heads_q, case.head_dim),
            "k": draw.activation(sum(lengths), case.heads_kv, case.head_dim),
            "v": draw.activation(sum(lengths), case.heads_kv, case.head_dim),
            "cu_seqlens": draw.constant(ends),
            "lengths": lengths,
            "causal": bool(case.causal),
        }

    def reference(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        cu_seqlens: torch.Tensor,
        lengths: tuple[int, ...],
        causal: bool,
    ) -> torch.Tensor:
        """The formula in float64."""
        return flash_attention_varlen(q, k, v, lengths, lengths, causal)

    @kernel(binds=True)
    def warpwatch(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        cu_seqlens: torch.Tensor,
        lengths: tuple[int, ...],
        causal: bool,
    ) -> Callable[[], Any]:
        """The CUDA C++ or CPU kernel of the commit."""
        attention, longest = warpwatch_operator("flash_attention_varlen"), max(lengths)
        return lambda: attention(q, k, v, cu_seqlens, cu_seqlens, longest, longest, causal=causal)

    @kernel(binds=True, devices=["cuda"])
    def triton(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        cu_seqlens: torch.Tensor,
        lengths: tuple[int, ...],
        causal: bool,
    ) -> Callable[[], Any]:
        """Its Triton twin."""
        attention, longest = triton_operator("flash_attention_varlen"), max(lengths)
        return lambda: attention(q, k, v, cu_seqlens, cu_seqlens, longest, longest, causal=causal)

    @baseline(binds=True, devices=["cuda"])
    def sdpa(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        cu_seqlens: torch.Tensor,
        lengths: tuple[int, ...],
        causal: bool,
    ) -> Prepared:
        """SDPA's FlashAttention-2 backend for packed sequences, as torch.nn.attention.varlen calls it.

        Raises UnavailableError for fp32.
        """
        if q.dtype == torch.float32:
            raise UnavailableError("FlashAttention-2 takes fp16 and bf16 alone")
        forward, longest = torch.ops.aten._flash_attention_forward, max(lengths)
        return Prepared(
            run=lambda: forward(q, k, v, cu_seqlens, cu_seqlens, longest, longest, 0.0, causal, False)[0],
            backend="flash_attention",
        )

    @baseline(binds=True)
    def eager(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        cu_seqlens: torch.Tensor,
        lengths: tuple[int, ...],
        causal: bool,
    ) -> Callable[[], Any]:
        """scaled_dot_product_attention of one sequence after the other, put together again."""
        attention, grouped = torch.nn.functional.scaled_dot_product_attention, q.shape[1] != k.shape[1]
        # Views (1, heads, length, head_dim).
        views = ([x.transpose(0, 1)[None] for x in packed.split(list(lengths))] for packed in (q, k, v))
        sequences = list(zip(*views, strict=True))

        def run() -> torch.Tensor:
            each = [
                attention(queries, keys, values, is_causal=causal, enable_gqa=grouped)
                for queries, keys, values in sequences
            ]
            return torch.cat([out[0].transpose(0, 1) for out in each])

        return run

    @baseline(binds=True, devices=["cuda"])
    def flash_attn(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        cu_seqlens: torch.Tensor,
        lengths: tuple[int, ...],
        causal: bool,
    ) -> Prepared:
        """FlashAttention. Raises UnavailableError for fp32."""
        package = flash_attention_package()
        if q.dtype == torch.float32:
            raise UnavailableError("FlashAttention takes fp16 and bf16 alone")
        longest = max(lengths)
        return Prepared(
            run=lambda: package.packed(q, k, v, cu_seqlens, cu_seqlens, longest, longest, causal=causal),
            backend=package.backend,
        )


def flash_attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths_q: tuple[int, ...],
    lengths_kv: tuple[int, ...],
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
) -> torch.Tensor:
    """flash_attention of each sequence by itself, in float64; q (total_q, heads_q, head_dim), k and v likewise."""
    out = torch.zeros(q.shape, dtype=torch.float64, device=q.device)
    ends_q = [0, *itertools.accumulate(lengths_q)]
    ends_kv = [0, *itertools.accumulate(lengths_kv)]
    for b in range(len(lengths_q)):
        rows, seen = slice(ends_q[b], ends_q[b + 1]), slice(ends_kv[b], ends_kv[b + 1])
        queries, keys, values = (x.transpose(0, 1)[None] for x in (q[rows], k[seen], v[seen]))
        out[rows] = flash_attention.flash_attention(queries, keys, values, causal, scale, window)[0].transpose(0, 1)
    return out
