"""Second step of the attention ladder in Triton: a block of queries loops over tiles of keys, without tensor cores."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from .naive_attention import check_attention

# As in CUDA C++: 32 queries and tiles of 32 keys, 16 for the longest rows.
_BLOCK_Q = 32


def tiled_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.tiled_attention, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    check_attention("triton tiled_attention", q, k, v)
    batch, heads_q, seq_q, head_dim = q.shape
    heads_kv, seq_kv = k.shape[1], k.shape[2]
    out = q.new_empty(q.shape)
    if out.numel() == 0:
        return out
    query_blocks = triton.cdiv(seq_q, _BLOCK_Q)
    with torch.cuda.device_of(q):  # Triton launches on the current device
        _tiled_attention[(query_blocks * heads_q * batch,)](
            q,
            k,
            v,
            out,
            *q.stride()[:3],
            *k.stride()[:3],
            *v.stride()[:3],
            heads_q,
            heads_q // heads_kv,
            seq_q,
            seq_kv,
            head_dim,
            query_blocks,
            (head_dim**-0.5 if scale is None else scale) * math.log2(math.e),
            CAUSAL=causal,
            BLOCK_Q=_BLOCK_Q,
            BLOCK_KV=16 if head_dim > 128 else 32,
            BLOCK_D=max(16, triton.next_power_of_2(head_dim)),  # tl.dot's minimum
            num_warps=8,
            num_stages=1,  # more stages spill registers on sm_90
        )
    return out


@triton.jit
def _tiled_attention(
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
    heads_q,
    group,
    seq_q,
    seq_kv,
    head_dim,
    query_blocks,
    scale_log2,
    CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_KV: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """out = softmax(scale q k^T) v for BLOCK_Q queries of one head, with an online softmax; one program per block.

    fp32 products in full precision: tensor cores cannot compute them, so the FP32 cores do.
    """
    program = tl.program_id(0)
    query = (program % query_blocks) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    head = (program // query_blocks % heads_q).to(tl.int64)
    batch = (program // query_blocks // heads_q).to(tl.int64)
    column = tl.arange(0, BLOCK_D)
    held = (query < seq_q)[:, None] & (column < head_dim)[None, :]
    rows = query.to(tl.int64)[:, None]
    q_ptr += batch * q_batch_stride + head * q_head_stride
    k_ptr += batch * k_batch_stride + head // group * k_head_stride
    v_ptr += batch * v_batch_stride + head // group * v_head_stride
    q = tl.load(q_ptr + rows * q_row_stride + column[None, :], mask=held, other=0.0).to(tl.float32)

    # Query i sees the keys below seen[i], the block's last query those below `end`; both may be negative.
    seen = tl.minimum(query + (seq_kv - seq_q + 1), seq_kv) if CAUSAL else query * 0 + seq_kv
    end = tl.minimum((program % query_blocks + 1) * BLOCK_Q + (seq_kv - seq_q), seq_kv) if CAUSAL else seq_kv
    top = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    out = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    for first in tl.range(0, end, BLOCK_KV):
        key = first + tl.arange(0, BLOCK_KV)
        there = (key < seq_kv)[:, None] & (column < head_dim)[None, :]
        key_rows = key.to(tl.int64)[:, None]
        k = tl.load(k_ptr + key_rows * k_row_stride + column[None, :], mask=there, other=0.0).to(tl.float32)
        v = tl.load(v_ptr + key_rows * v_row_stride + column[None, :], mask=there, other=0.0).to(tl.float32)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        scores = tl.where(key[None, :] < seen[:, None], scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, axis=1))
        # The maximum is subtracted before scaling: scaling first, or in one FMA, would round large scores by more
        # than they differ.
        # A query that has seen no key has the maximum -inf: subtracting 0 gives weights 0, not exp(-inf + inf).
        base = tl.where(new_top == float("-inf"), 0.0, new_top)
        weights = tl.exp2((scores - base[:, None]) * scale_log2)
        shrink = tl.exp2((top - base) * scale_log2)
        total = total * shrink + tl.sum(weights, axis=1)
        out = tl.dot(weights, v, out * shrink[:, None], input_precision="ieee")
        top = new_top
    out = out / tl.where(total == 0.0, 1.0, total)[:, None]  # 0 / 1 for a query that saw no key
    out_at = out_ptr + ((batch * heads_q + head) * seq_q + rows) * head_dim + column[None, :]
    tl.store(out_at, out, mask=held)
