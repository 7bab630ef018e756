"""Scaled dot-product attention over packed sequences of different lengths."""

from __future__ import annotations

from typing import Any

import torch

from ..extension import load_operator
from .flash_attention import flash_attention_backward


def flash_attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_kv: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_kv: int,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
) -> torch.Tensor:
    """flash_attention of several sequences, concatenated in memory; a new, contiguous tensor like q.

    q (total_q, heads_q, head_dim); k, v (total_kv, heads_kv, head_dim). cu_seqlens_q and cu_seqlens_kv, (batch + 1)
    int32 on q's device, are prefix sums of the lengths: 0, then each sequence's end, up to total_q and total_kv. A
    sequence may be empty; one without keys returns zeros. max_seqlen_q and max_seqlen_kv are at least the longest
    lengths. Within a sequence, causal, window, scale, heads, dtypes and head_dim are as in flash_attention.
    On a CPU the lengths are checked. On a GPU that would need a synchronisation: rows past the last sequence, or past
    the first max_seqlen_q of a sequence, return zeros with a log-sum-exp of -inf. So q may have spare rows, and a CUDA
    graph may be replayed with other lengths in the same tensors.
    Differentiable in q, k and v where flash_attention is: the backward pass copies the lengths to the host, waits for
    them, and processes one sequence after the other.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    arguments = (q, k, v, cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv, causal, scale, window)
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        out: torch.Tensor = _flash_attention_varlen_with_lse(*arguments)[0]
        return out
    return _flash_attention_varlen(*arguments)


def flash_attention_varlen_with_lse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_kv: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_kv: int,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """flash_attention_varlen and the log-sum-exp of each query's scores, float64 (heads_q, total_q)."""
    return _flash_attention_varlen_with_lse(
        q, k, v, cu_seqlens_q, cu_seqlens_kv, max_seqlen_q, max_seqlen_kv, causal, scale, window
    )


@torch.library.custom_op("warpwatch::flash_attention_varlen_backward", mutates_args=())
def _flash_attention_varlen_backward(
    d_out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_kv: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    causal: bool,
    scale: float | None,
    window: int | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dq, dk and dv: flash_attention_backward of each sequence.

    Not a single launch: the backward kernels take one length of queries and one of keys. To look up their sequence in
    cu_seqlens_q they would all have to be built once more, as the forward pass is in flash_attention_packed_sm80.cu:
    delta, dq, and dk and dv, in 16 bits for sm_75 and sm_80 and in float32 for three architectures.
    """
    dq, dk, dv = (torch.zeros(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    ends_q, ends_kv = cu_seqlens_q.tolist(), cu_seqlens_kv.tolist()
    for b in range(len(ends_q) - 1):
        rows, seen = slice(ends_q[b], ends_q[b + 1]), slice(ends_kv[b], ends_kv[b + 1])
        if rows.start == rows.stop or seen.start == seen.stop:
            continue  # no queries, or no keys: the gradients are zeros
        of_sequence = flash_attention_backward(
            _as_batch(d_out[rows]),
            _as_batch(q[rows]),
            _as_batch(k[seen]),
            _as_batch(v[seen]),
            _as_batch(out[rows]),
            lse[:, rows].contiguous()[None],
            causal=causal,
            scale=scale,
            window=window,
        )
        dq[rows], dk[seen], dv[seen] = (part[0].transpose(0, 1) for part in of_sequence)
    return dq, dk, dv


def _as_batch(packed: torch.Tensor) -> torch.Tensor:
    """(rows, heads, head_dim) as (1, heads, rows, head_dim)."""
    return packed.transpose(0, 1)[None]


_flash_attention_varlen_backward.register_fake(
    lambda d_out, q, k, v, *_: (q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape))
)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k, v, cu_seqlens_q, cu_seqlens_kv, _max_seqlen_q, _max_seqlen_kv, *ctx.options = inputs
    out, lse = output
    ctx.mark_non_differentiable(lse)
    ctx.save_for_backward(q, k, v, cu_seqlens_q, cu_seqlens_kv, out, lse)


def _differentiate(ctx: Any, d_out: torch.Tensor, _d_lse: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    dq, dk, dv = _flash_attention_varlen_backward(d_out, *ctx.saved_tensors, *ctx.options)
    return dq, dk, dv, None, None, None, None, None, None, None


_flash_attention_varlen = load_operator("flash_attention_varlen")
_flash_attention_varlen_with_lse = load_operator(
    "flash_attention_varlen_with_lse",
    result=lambda q, **_: (q.new_empty(q.shape), q.new_empty(q.shape[1::-1], dtype=torch.float64)),
)
if hasattr(torch.ops.warpwatch, "flash_attention_varlen_with_lse"):
    torch.library.register_autograd("warpwatch::flash_attention_varlen_with_lse", _differentiate, setup_context=_keep)
