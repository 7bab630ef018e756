"""Scaled dot-product attention in Triton; the formula is at the head of csrc/flash_attention/flash_attention.h."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from ..operators.devices import check_devices
from .flash_attention_configs import flash_attention_config

HEAD_DIMS = (16, 32, 64, 128, 256)  # powers of two, as Triton's blocks are
_INTERPRETED_AS = 80  # the compute capability whose config the interpreter takes


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> torch.Tensor:
    """What warpwatch.kernels.flash_attention computes, on CUDA tensors (on CPU ones under TRITON_INTERPRET=1)."""
    check_devices("triton flash_attention", q=q, k=k, v=v)
    batch, heads_q, seq_q, head_dim = q.shape
    heads_kv, seq_kv = k.shape[1], k.shape[2]
    if k.shape != v.shape or k.shape != (batch, heads_kv, seq_kv, head_dim) or heads_kv < 1 or heads_q % heads_kv:
        raise RuntimeError(
            f"triton flash_attention: k and v must have shape (batch, heads_kv, seq_kv, head_dim) with heads_kv "
            f"dividing heads_q of q {list(q.shape)}, got {list(k.shape)} and {list(v.shape)}"
        )
    if head_dim not in HEAD_DIMS:
        raise RuntimeError(f"triton flash_attention: head_dim must be one of {HEAD_DIMS}, got {head_dim}")
    if q.stride(-1) != 1 or k.stride(-1) != 1 or v.stride(-1) != 1:
        raise RuntimeError("triton flash_attention: the last dimension of q, k and v must be contiguous (stride 1)")
    out = q.new_empty(q.shape)
    if out.numel() == 0:
        return out
    config = flash_attention_config(_compute_capability(q.device), head_dim, q.element_size())
    query_blocks = triton.cdiv(seq_q, config.block_q)
    with torch.cuda.device_of(q):  # the launch goes to the current device
        _flash_attention[(query_blocks * batch * heads_q,)](
            q,
            k,
            v,
            out,
            *q.stride()[:3],
            *k.stride()[:3],
            *v.stride()[:3],
            *out.stride()[:3],
            heads_q,
            heads_q // heads_kv,
            seq_q,
            seq_kv,
            query_blocks,
            (head_dim**-0.5 if scale is None else scale) * math.log2(math.e),
            CAUSAL=causal,
            PRECISION="ieee" if q.dtype == torch.float32 else "tf32",
            HEAD_DIM=head_dim,
            BLOCK_Q=config.block_q,
            BLOCK_KV=config.block_kv,
            num_warps=config.num_warps,
            num_stages=config.num_stages,
        )
    return out


def _compute_capability(device: torch.device) -> int:
    if device.type != "cuda":
        return _INTERPRETED_AS
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


@triton.jit
def _flash_attention(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    q_batch_stride,
    q_head_stride,
    q_row_stride,
    k_batch_stride,
    k_head_stride,
    k_row_stride,
    v_batch_stride,
    v_head_stride,
    v_row_stride,
    out_batch_stride,
    out_head_stride,
    out_row_stride,
    heads_q,
    group,
    seq_q,
    seq_kv,
    query_blocks,
    scale_log2,
    CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_KV: tl.constexpr,
):
    """out = softmax(scale q k^T) v for BLOCK_Q queries of one head; fp32 inside.

    One program per (query block, head, batch), the query blocks running fastest and, if causal, from the longest to
    the shortest. Weights are 2^(scale_log2 score - maximum), the maximum and the sum being kept online.
    """
    program = tl.program_id(0)
    block = program % query_blocks
    if CAUSAL:
        block = query_blocks - 1 - block
    head = (program // query_blocks % heads_q).to(tl.int64)
    batch = (program // query_blocks // heads_q).to(tl.int64)
    query = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    live = query < seq_q
    column = tl.arange(0, HEAD_DIM)
    rows = query.to(tl.int64)
    q_at = q_ptr + batch * q_batch_stride + head * q_head_stride + rows[:, None] * q_row_stride + column[None, :]
    q = tl.load(q_at, mask=live[:, None], other=0.0)
    k_ptr += batch * k_batch_stride + head // group * k_head_stride
    v_ptr += batch * v_batch_stride + head // group * v_head_stride

    seen = tl.minimum(query * 0 + seq_kv, query + (seq_kv - seq_q + 1)) if CAUSAL else query * 0 + seq_kv
    # Keys below seen_by_all are seen by every query of the block, those from `end` on by none.
    seen_by_all = tl.maximum(tl.minimum(block * BLOCK_Q + (seq_kv - seq_q + 1), seq_kv), 0) if CAUSAL else seq_kv
    end = tl.maximum(tl.minimum((block + 1) * BLOCK_Q + (seq_kv - seq_q), seq_kv), 0) if CAUSAL else seq_kv
    whole = seen_by_all // BLOCK_KV * BLOCK_KV

    top = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    out = tl.zeros([BLOCK_Q, HEAD_DIM], tl.float32)
    for first_key in tl.range(0, whole, BLOCK_KV):
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
            scale_log2,
            MASKED=False,
            PRECISION=PRECISION,
            HEAD_DIM=HEAD_DIM,
            BLOCK_KV=BLOCK_KV,
        )
    for first_key in tl.range(whole, end, BLOCK_KV):
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
            scale_log2,
            MASKED=True,
            PRECISION=PRECISION,
            HEAD_DIM=HEAD_DIM,
            BLOCK_KV=BLOCK_KV,
        )

    out = out / tl.where(total == 0.0, 1.0, total)[:, None]  # a query that saw no key has summed nothing: 0 / 1
    out_at = out_ptr + batch * out_batch_stride + head * out_head_stride
    out_at += rows[:, None] * out_row_stride + column[None, :]
    tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=live[:, None])


@triton.jit
def _add_keys(
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
    scale_log2,
    MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_KV: tl.constexpr,
):
    """One step of the online softmax: BLOCK_KV keys from first_key on, of which query i sees those below seen[i]."""
    key = first_key + tl.arange(0, BLOCK_KV)
    column = tl.arange(0, HEAD_DIM)
    rows = key.to(tl.int64)
    k_at = k_ptr + rows[None, :] * k_row_stride + column[:, None]
    v_at = v_ptr + rows[:, None] * v_row_stride + column[None, :]
    if MASKED:
        k = tl.load(k_at, mask=(key < seq_kv)[None, :], other=0.0)
        v = tl.load(v_at, mask=(key < seq_kv)[:, None], other=0.0)
    else:
        k = tl.load(k_at)
        v = tl.load(v_at)
    scores = tl.dot(q, k, input_precision=PRECISION) * scale_log2
    if MASKED:
        scores = tl.where(key[None, :] < seen[:, None], scores, float("-inf"))
    new_top = tl.maximum(top, tl.max(scores, 1))
    # A query that has seen no key has the maximum -inf: subtracting 0 gives weights 0, not -inf + inf.
    base = tl.where(new_top == float("-inf"), 0.0, new_top)
    weights = tl.exp2(scores - base[:, None])
    shrink = tl.exp2(top - base)
    total = total * shrink + tl.sum(weights, 1)
    out = tl.dot(weights.to(v.dtype), v, out * shrink[:, None], input_precision=PRECISION)
    return out, new_top, total
