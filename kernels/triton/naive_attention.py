"""First step of the attention ladder in Triton: one program per query, its scores in global memory."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices
from .attention_checks import check_keys, check_rows

# Keys per step: 64 rows of 128 fp16 elements are eight 16-byte loads per thread.
_BLOCK_KV = 64


def naive_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.naive_attention, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    check_attention("triton naive_attention", q, k, v)
    batch, heads_q, seq_q, head_dim = q.shape
    heads_kv, seq_kv = k.shape[1], k.shape[2]
    out = q.new_empty(q.shape)
    if out.numel() == 0:
        return out
    scores = q.new_empty((batch * heads_q * seq_q, seq_kv), dtype=torch.float32)
    with torch.cuda.device_of(q):  # Triton launches on the current device
        _naive_attention[(batch * heads_q * seq_q,)](
            q,
            k,
            v,
            scores,
            out,
            *q.stride()[:3],
            *k.stride()[:3],
            *v.stride()[:3],
            heads_q,
            heads_q // heads_kv,
            seq_q,
            seq_kv,
            head_dim,
            head_dim**-0.5 if scale is None else scale,
            CAUSAL=causal,
            BLOCK_KV=_BLOCK_KV,
            BLOCK_D=triton.next_power_of_2(head_dim),
            num_warps=4,
        )
    return out


def check_attention(operator: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Raise RuntimeError for devices, shapes or strides that the ladder's twins do not support."""
    check_devices(operator, q=q, k=k, v=v)
    check_keys(operator, q, k, v)
    head_dim = q.shape[3]
    if head_dim % 8 or not 8 <= head_dim <= 256:
        raise RuntimeError(f"{operator}: head_dim must be a multiple of 8 up to 256, got {head_dim}")
    check_rows(operator, q, k, v)


@triton.jit
def _naive_attention(
    q_ptr,
    k_ptr,
    v_ptr,
    scores_ptr,
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
    scale,
    CAUSAL: tl.constexpr,
    BLOCK_KV: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """out[i] = sum over j of softmax(scale q[i] k^T)[j] v[j]; one program per (query, head, batch); fp32 inside.

    Three passes over the keys: scores and their maximum, weights and their sum, the weighted values.
    """
    program = tl.program_id(0).to(tl.int64)
    query = program % seq_q
    head = program // seq_q % heads_q
    batch = program // seq_q // heads_q
    column = tl.arange(0, BLOCK_D)
    key = tl.arange(0, BLOCK_KV).to(tl.int64)
    live = column < head_dim
    q = tl.load(
        q_ptr + batch * q_batch_stride + head * q_head_stride + query * q_row_stride + column, mask=live, other=0.0
    )
    q = q.to(tl.float32)
    k_ptr += batch * k_batch_stride + head // group * k_head_stride
    v_ptr += batch * v_batch_stride + head // group * v_head_stride
    scores_ptr += program * seq_kv
    seen = tl.minimum(query + 1 + seq_kv - seq_q, seq_kv) if CAUSAL else seq_kv  # negative: sees nothing

    top = tl.full([BLOCK_KV], float("-inf"), tl.float32)
    for first in tl.range(0, seen, BLOCK_KV):
        there = first + key < seen
        k_at = k_ptr + (first + key)[:, None] * k_row_stride + column[None, :]
        k = tl.load(k_at, mask=there[:, None] & live[None, :], other=0.0).to(tl.float32)
        scores = tl.sum(q[None, :] * k, axis=1)
        tl.store(scores_ptr + first + key, scores, mask=there)
        top = tl.maximum(top, tl.where(there, scores, float("-inf")))
    top = tl.max(top, axis=0)
    tl.debug_barrier()  # makes the scores visible to all threads

    total = tl.zeros([BLOCK_KV], tl.float32)
    for first in tl.range(0, seen, BLOCK_KV):
        there = first + key < seen
        # The maximum is subtracted before scaling: scaling first would round large scores by more than they
        # differ.
        weights = tl.exp((tl.load(scores_ptr + first + key, mask=there, other=float("-inf")) - top) * scale)
        tl.store(scores_ptr + first + key, weights, mask=there)
        total += weights
    total = tl.sum(total, axis=0)
    tl.debug_barrier()  # and the weights

    out = tl.zeros([BLOCK_D], tl.float32)
    for first in tl.range(0, seen, BLOCK_KV):
        there = first + key < seen
        weights = tl.load(scores_ptr + first + key, mask=there, other=0.0)
        v_at = v_ptr + (first + key)[:, None] * v_row_stride + column[None, :]
        v = tl.load(v_at, mask=there[:, None] & live[None, :], other=0.0).to(tl.float32)
        out += tl.sum(weights[:, None] * v, axis=0)
    out = out / tl.where(total == 0.0, 1.0, total)  # 0 / 1 for a query that saw no key
    tl.store(out_ptr + program * head_dim + column, out, mask=live)
