"""Attention over packed sequences in Triton; the formula is in csrc/flash_attention/flash_attention.h."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices
from .flash_attention import _add_keys, check_attention, compute_capability, flash_attention_config, options


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
    """Triton twin of warpwatch.kernels.flash_attention_varlen, for CUDA tensors (CPU ones if interpreted)."""
    out, _ = flash_attention_varlen_with_lse(
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_kv,
        max_seqlen_q,
        max_seqlen_kv,
        causal=causal,
        scale=scale,
        window=window,
    )
    return out


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
    """Triton twin of the operator of that name: the output, and the log-sum-exp of each query\'s scores."""
    check_devices(
        "triton flash_attention_varlen", q=q, k=k, v=v, cu_seqlens_q=cu_seqlens_q, cu_seqlens_kv=cu_seqlens_kv
    )
    if q.dim() != 3 or k.dim() != 3 or v.dim() != 3:
        raise RuntimeError(
            f"triton flash_attention_varlen: q, k and v must have 3 dimensions (total, heads, head_dim), got "
            f"{list(q.shape)}, {list(k.shape)} and {list(v.shape)}"
        )
    as_batch = [x.transpose(0, 1)[None] for x in (q, k, v)]
    check_attention(as_batch[0], as_batch[1], as_batch[2], causal, window)
    if any(x.dtype != torch.int32 or x.dim() != 1 or x.stride(0) != 1 for x in (cu_seqlens_q, cu_seqlens_kv)):
        raise RuntimeError("triton flash_attention_varlen: cu_seqlens_q and cu_seqlens_kv must be int32 (batch + 1)")
    total_q, heads_q, head_dim = q.shape
    batch = cu_seqlens_q.shape[0] - 1
    out, lse = q.new_empty(q.shape), q.new_empty((heads_q, total_q), dtype=torch.float64)
    seq_q = min(max_seqlen_q, total_q)
    if out.numel() == 0 or batch < 1 or seq_q < 1:  # no row belongs to a sequence
        return out.zero_(), lse.fill_(-math.inf)
    config = flash_attention_config(compute_capability(q.device), head_dim, q.element_size())
    query_blocks = triton.cdiv(seq_q, config.block_q)
    with torch.cuda.device_of(q):  # Triton launches on the current device
        _flash_attention_varlen[(query_blocks * batch * heads_q,)](
            q,
            k,
            v,
            cu_seqlens_q,
            cu_seqlens_kv,
            out,
            lse,
            *q.stride()[:2],
            *k.stride()[:2],
            *v.stride()[:2],
            *out.stride()[:2],
            heads_q,
            heads_q // k.shape[1],
            total_q,
            batch,
            seq_q,
            query_blocks,
            head_dim**-0.5 if scale is None else scale,
            k.shape[0] if window is None else min(window, k.shape[0]),
            **options(q, k.shape[0], causal, window, config),
        )
    return out, lse


@triton.jit
def _flash_attention_varlen(
    q_ptr,
    k_ptr,
    v_ptr,
    ends_q_ptr,
    ends_kv_ptr,
    out_ptr,
    lse_ptr,
    q_row_stride,
    q_head_stride,
    k_row_stride,
    k_head_stride,
    v_row_stride,
    v_head_stride,
    out_row_stride,
    out_head_stride,
    heads_q,
    group,
    total_q,
    batch,
    max_seqlen_q,
    query_blocks,
    scale,
    window,
    CAUSAL: tl.constexpr,
    WINDOWED: tl.constexpr,
    PRECISION: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_KV: tl.constexpr,
):
    """out = softmax(scale q k^T) v for BLOCK_Q queries of one head of one sequence; fp32 inside.

    One program per (query block, head, sequence); blocks past the end of a short sequence do nothing.
    """
    program = tl.program_id(0)
    block = program % query_blocks
    if CAUSAL:
        block = query_blocks - 1 - block
    head = (program // query_blocks % heads_q).to(tl.int64)
    sequence = program // query_blocks // heads_q
    first_row = tl.load(ends_q_ptr + sequence)
    first_key_row = tl.load(ends_kv_ptr + sequence)
    queries_there = tl.load(ends_q_ptr + sequence + 1) - first_row
    seq_q = tl.minimum(queries_there, max_seqlen_q)
    seq_kv = tl.load(ends_kv_ptr + sequence + 1) - first_key_row
    # Rows past max_seqlen_q and past the last sequence are zeroed; the programs of a sequence and head share that work.
    uncovered = tl.where(sequence == batch - 1, total_q - first_row, queries_there)
    for first in tl.range(seq_q + block * BLOCK_Q, uncovered, query_blocks * BLOCK_Q):
        spare = (first + tl.arange(0, BLOCK_Q)).to(tl.int64)
        columns = tl.arange(0, BLOCK_D)
        spare_at = out_ptr + head * out_head_stride + (first_row + spare)[:, None] * out_row_stride + columns[None, :]
        nothing = tl.zeros([BLOCK_Q, BLOCK_D], out_ptr.dtype.element_ty)
        tl.store(spare_at, nothing, mask=(spare < uncovered)[:, None] & (columns < HEAD_DIM)[None, :])
        lse_at = lse_ptr + head * total_q + first_row + spare
        tl.store(lse_at, tl.full([BLOCK_Q], float("-inf"), tl.float64), mask=spare < uncovered)
    if block * BLOCK_Q < seq_q:
        query = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
        live = query < seq_q
        column = tl.arange(0, BLOCK_D)
        rows = (first_row + query).to(tl.int64)
        held = live[:, None] & (column < HEAD_DIM)[None, :]
        q_at = q_ptr + head * q_head_stride + rows[:, None] * q_row_stride + column[None, :]
        q = tl.load(q_at, mask=held, other=0.0)
        k_ptr += head // group * k_head_stride + first_key_row.to(tl.int64) * k_row_stride
        v_ptr += head // group * v_head_stride + first_key_row.to(tl.int64) * v_row_stride

        seen = tl.minimum(query * 0 + seq_kv, query + (seq_kv - queries_there + 1)) if CAUSAL else query * 0 + seq_kv
        end = tl.maximum(tl.minimum((block + 1) * BLOCK_Q + (seq_kv - queries_there), seq_kv), 0) if CAUSAL else seq_kv
        begin = tl.maximum(block * BLOCK_Q + (seq_kv - queries_there + 1) - window, 0) if WINDOWED else 0
        LOG2_E: tl.constexpr = 1.4426950408889634
        scale_log2 = scale * LOG2_E
        top = tl.full([BLOCK_Q], float("-inf"), tl.float32)
        total = tl.zeros([BLOCK_Q], tl.float32)
        out = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
        for first_key in tl.range(begin, end, BLOCK_KV):
            out, top, total = _add_keys(
                out,
                top,
                total,
                q,
                k_ptr,
                v_ptr,
                k_row_stride,
                v_row_stride,
                first_key,
                seq_kv,
                seen,
                window,
                scale_log2,
                MASKED=True,
                WINDOWED=WINDOWED,
                PRECISION=PRECISION,
                HEAD_DIM=HEAD_DIM,
                BLOCK_D=BLOCK_D,
                BLOCK_KV=BLOCK_KV,
            )

        out = out / tl.where(total == 0.0, 1.0, total)[:, None]  # 0 / 1 for a query that saw no key
        out_at = out_ptr + head * out_head_stride + rows[:, None] * out_row_stride + column[None, :]
        tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=held)
        lse = tl.where(
            total == 0.0, float("-inf"), top.to(tl.float64) * scale + tl.log(tl.where(total == 0.0, 1.0, total))
        )
        tl.store(lse_ptr + head * total_q + rows, lse, mask=live)
