"""Attention with a bias in Triton; the formula is in csrc/flash_attention/flash_attention.h."""

from __future__ import annotations

from dataclasses import replace

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices
from .flash_attention import check_attention, compute_capability, flash_attention_config, options


def attend_biased(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor,
    lse: torch.Tensor | None,
    *,
    causal: bool,
    scale: float | None,
    window: int | None,
) -> torch.Tensor:
    """Triton twin of flash_attention(bias=...); also writes lse if given."""
    check_devices("triton flash_attention", q=q, k=k, v=v, bias=bias)
    check_attention(q, k, v, causal, window)
    batch, heads_q, seq_q, head_dim = q.shape
    seq_kv = k.shape[2]
    try:
        bias = bias.expand(batch, heads_q, seq_q, seq_kv)
    except RuntimeError as unfit:
        raise RuntimeError(
            f"triton flash_attention: bias must broadcast to (batch, heads_q, seq_q, seq_kv), which is "
            f"{[batch, heads_q, seq_q, seq_kv]}, got shape {list(bias.shape)}"
        ) from unfit
    out = q.new_empty(q.shape)
    if out.numel() == 0:
        return out
    config = flash_attention_config(compute_capability(q.device), head_dim, q.element_size())
    config = replace(config, num_stages=1 if q.element_size() == 4 else 2)  # the bias tiles take shared memory too
    query_blocks = triton.cdiv(seq_q, config.block_q)
    with torch.cuda.device_of(q):  # Triton launches on the current device
        _flash_attention_biased[(query_blocks * batch * heads_q,)](
            q,
            k,
            v,
            bias,
            out,
            out if lse is None else lse,  # a placeholder that is not written
            *q.stride()[:3],
            *k.stride()[:3],
            *v.stride()[:3],
            *bias.stride(),
            *out.stride()[:3],
            heads_q,
            heads_q // k.shape[1],
            seq_q,
            seq_kv,
            query_blocks,
            head_dim**-0.5 if scale is None else scale,
            seq_kv if window is None else min(window, seq_kv),
            WITH_LSE=lse is not None,
            **options(q, seq_kv, causal, window, config),
        )
    return out


@triton.jit
def _flash_attention_biased(
    q_ptr,
    k_ptr,
    v_ptr,
    bias_ptr,
    out_ptr,
    lse_ptr,
    q_batch_stride,
    q_head_stride,
    q_row_stride,
    k_batch_stride,
    k_head_stride,
    k_row_stride,
    v_batch_stride,
    v_head_stride,
    v_row_stride,
    bias_batch_stride,
    bias_head_stride,
    bias_row_stride,
    bias_key_stride,
    out_batch_stride,
    out_head_stride,
    out_row_stride,
    heads_q,
    group,
    seq_q,
    seq_kv,
    query_blocks,
    scale,
    window,
    CAUSAL: tl.constexpr,
    WINDOWED: tl.constexpr,
    WITH_LSE: tl.constexpr,
    PRECISION: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_KV: tl.constexpr,
):
    """out = softmax(scale q k^T + bias) v for BLOCK_Q queries of one head; fp32 inside.

    One program per (query block, head, batch), as in `_flash_attention`. Scores are scaled before the bias is added,
    and the maximum is subtracted before anything is multiplied: a bias may be the lowest number of its dtype.
    """
    LOG2E: tl.constexpr = 1.4426950408889634
    program = tl.program_id(0)
    block = program % query_blocks
    if CAUSAL:
        block = query_blocks - 1 - block
    head = (program // query_blocks % heads_q).to(tl.int64)
    batch = (program // query_blocks // heads_q).to(tl.int64)
    query = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    live = query < seq_q
    column = tl.arange(0, BLOCK_D)
    rows = query.to(tl.int64)
    held = live[:, None] & (column < HEAD_DIM)[None, :]
    q_at = q_ptr + batch * q_batch_stride + head * q_head_stride + rows[:, None] * q_row_stride + column[None, :]
    q = tl.load(q_at, mask=held, other=0.0)
    k_ptr += batch * k_batch_stride + head // group * k_head_stride
    v_ptr += batch * v_batch_stride + head // group * v_head_stride
    bias_ptr += batch * bias_batch_stride + head * bias_head_stride

    newest = query + (seq_kv - seq_q)
    end = tl.maximum(tl.minimum((block + 1) * BLOCK_Q + (seq_kv - seq_q), seq_kv), 0) if CAUSAL else seq_kv
    begin = tl.maximum(block * BLOCK_Q + (seq_kv - seq_q + 1) - window, 0) if WINDOWED else 0
    top = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    out = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    for first_key in tl.range(begin, end, BLOCK_KV):
        key = first_key + tl.arange(0, BLOCK_KV)
        keys = key.to(tl.int64)
        there = key < seq_kv
        k_at = k_ptr + keys[None, :] * k_row_stride + column[:, None]
        k = tl.load(k_at, mask=there[None, :] & (column < HEAD_DIM)[:, None], other=0.0)
        bias_at = bias_ptr + rows[:, None] * bias_row_stride + keys[None, :] * bias_key_stride
        bias = tl.load(bias_at, mask=live[:, None] & there[None, :], other=0.0).to(tl.float32)
        scores = tl.dot(q, k, input_precision=PRECISION) * scale + bias
        scores = tl.where(there[None, :], scores, float("-inf"))
        if CAUSAL:
            scores = tl.where(key[None, :] <= newest[:, None], scores, float("-inf"))
        if WINDOWED:
            scores = tl.where(key[None, :] > newest[:, None] - window, scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        # A query that has seen no key has the maximum -inf: subtracting 0 gives weights 0, not exp(-inf + inf).
        base = tl.where(new_top == float("-inf"), 0.0, new_top)
        weights = tl.exp2((scores - base[:, None]) * LOG2E)
        shrink = tl.exp2((top - base) * LOG2E)
        top = new_top
        total = total * shrink + tl.sum(weights, 1)
        v_at = v_ptr + keys[:, None] * v_row_stride + column[None, :]
        v = tl.load(v_at, mask=there[:, None] & (column < HEAD_DIM)[None, :], other=0.0)
        out = tl.dot(weights.to(v.dtype), v, out * shrink[:, None], input_precision=PRECISION)

    out = out / tl.where(total == 0.0, 1.0, total)[:, None]  # 0 / 1 for a query that saw no key
    out_at = out_ptr + batch * out_batch_stride + head * out_head_stride
    out_at += rows[:, None] * out_row_stride + column[None, :]
    tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=held)
    if WITH_LSE:
        lse = tl.where(total == 0.0, float("-inf"), top.to(tl.float64) + tl.log(tl.where(total == 0.0, 1.0, total)))
        tl.store(lse_ptr + (batch * heads_q + head) * seq_q + query, lse, mask=live)
