"""Gradients of attention in Triton; the formula is in csrc/flash_attention/flash_attention_backward.h.

As in CUDA C++: delta, then dq (a program owns queries), then dk and dv (a program owns keys). Each gradient is summed
by one program, without atomics, so the same input gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices
from .attention_checks import check_head_dim, check_keys, check_window
from .flash_attention import compute_capability


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashAttentionBackwardConfig:
    """One way to launch `_flash_attention_dq` and `_flash_attention_dkdv`."""

    owned: int  # queries per program in dq, keys per program in dk/dv
    step: int  # keys, or queries, per step
    num_warps: int
    num_stages: int  # stages of the pipeline over steps


def _config(owned: int, step: int, num_warps: int, num_stages: int) -> FlashAttentionBackwardConfig:
    return FlashAttentionBackwardConfig(owned=owned, step=step, num_warps=num_warps, num_stages=num_stages)


# Compute capability, then head_dim; a GPU uses the row of the newest chip that is not newer than itself. Reasoned from
# shared memory (at most 64, 164, 100 and 227 KB per block) and registers, not tuned on any chip yet.
_BY_CHIP_16_BIT = {
    75: {64: _config(64, 32, 4, 1), 128: _config(32, 32, 4, 1), 256: _config(16, 16, 4, 1)},
    80: {64: _config(64, 64, 4, 2), 128: _config(64, 32, 4, 2)},
    86: {64: _config(64, 64, 4, 2), 128: _config(64, 32, 4, 1)},
    90: {64: _config(128, 64, 8, 2), 128: _config(64, 64, 4, 2), 256: _config(64, 32, 8, 2)},
    120: {64: _config(64, 64, 4, 2), 128: _config(64, 32, 4, 1)},
}
_OTHER_HEAD_DIM_16_BIT = _config(32, 32, 4, 1)
_BY_CHIP_32_BIT = {
    75: {64: _config(32, 32, 4, 1), 128: _config(16, 16, 4, 1), 256: _config(8, 16, 4, 1)},
    80: {64: _config(32, 32, 4, 1), 128: _config(16, 16, 4, 1)},
}
_OTHER_HEAD_DIM_32_BIT = _config(16, 16, 4, 1)


def flash_attention_backward_config(
    compute_capability: int, head_dim: int, element_bytes: int
) -> FlashAttentionBackwardConfig:
    """Config of tracked runs; compute_capability is 10 * major + minor.

    head_dim 96 is padded to a block of 128 and uses its config. Raises ValueError for a GPU older than all in the
    table.
    """
    head_dim = 128 if head_dim == 96 else head_dim
    by_chip, other = (
        (_BY_CHIP_32_BIT, _OTHER_HEAD_DIM_32_BIT) if element_bytes == 4 else (_BY_CHIP_16_BIT, _OTHER_HEAD_DIM_16_BIT)
    )
    chips = [chip for chip in by_chip if chip <= compute_capability]
    if not chips:
        raise ValueError(f"no config for compute capability {compute_capability}; the oldest is {min(by_chip)}")
    return by_chip[max(chips)].get(head_dim, other)


_DELTA_ROWS = 32


def flash_attention_backward(
    d_out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Triton twin of warpwatch.kernels.flash_attention_backward, for CUDA tensors (CPU ones if interpreted)."""
    check_devices("triton flash_attention_backward", d_out=d_out, q=q, k=k, v=v, out=out, lse=lse)
    _check(d_out, q, k, v, out, lse, causal, window)
    batch, heads_q, seq_q, head_dim = q.shape
    heads_kv, seq_kv = k.shape[1], k.shape[2]
    dq, dk, dv = q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)
    if q.numel() == 0 or k.numel() == 0:
        return dq.zero_(), dk.zero_(), dv.zero_()
    delta = torch.empty_like(lse, dtype=torch.float32)
    config = flash_attention_backward_config(compute_capability(q.device), head_dim, q.element_size())
    block_d = triton.next_power_of_2(head_dim)
    scale = head_dim**-0.5 if scale is None else scale
    shape = (heads_q, heads_q // heads_kv, seq_q, seq_kv)
    numbers = (scale, seq_kv if window is None else min(window, seq_kv))
    cut = {
        "CAUSAL": causal,
        "WINDOWED": window is not None and window < seq_kv,
        "PRECISION": "ieee" if q.dtype == torch.float32 else "tf32",
        "HEAD_DIM": head_dim,
        "BLOCK_D": block_d,
        "num_warps": config.num_warps,
        "num_stages": config.num_stages,
    }
    strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *d_out.stride()[:3])
    with torch.cuda.device_of(q):  # Triton launches on the current device
        _flash_attention_delta[(triton.cdiv(seq_q, _DELTA_ROWS) * batch * heads_q,)](
            out,
            d_out,
            delta,
            *out.stride()[:3],
            *d_out.stride()[:3],
            heads_q,
            seq_q,
            triton.cdiv(seq_q, _DELTA_ROWS),
            HEAD_DIM=head_dim,
            BLOCK_D=block_d,
            ROWS=_DELTA_ROWS,
        )
        query_blocks, key_blocks = triton.cdiv(seq_q, config.owned), triton.cdiv(seq_kv, config.owned)
        _flash_attention_dq[(query_blocks * batch * heads_q,)](
            q,
            k,
            v,
            d_out,
            lse,
            delta,
            dq,
            *strides,
            *shape,
            query_blocks,
            *numbers,
            BLOCK_Q=config.owned,
            BLOCK_KV=config.step,
            **cut,
        )
        _flash_attention_dkdv[(key_blocks * batch * heads_kv,)](
            q,
            k,
            v,
            d_out,
            lse,
            delta,
            dk,
            dv,
            *strides,
            *shape,
            key_blocks,
            *numbers,
            BLOCK_Q=config.step,
            BLOCK_KV=config.owned,
            **cut,
        )
    return dq, dk, dv


def _check(
    d_out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    causal: bool,
    window: int | None,
) -> None:
    name = "triton flash_attention_backward"
    check_keys(name, q, k, v)
    if d_out.shape != q.shape or out.shape != q.shape or lse.shape != q.shape[:3]:
        raise RuntimeError(
            f"{name}: d_out and out must have q's shape {list(q.shape)} and lse its first three dimensions, got "
            f"{list(d_out.shape)}, {list(out.shape)} and {list(lse.shape)}"
        )
    check_head_dim(name, q.shape[3])
    if any(x.stride(-1) != 1 for x in (q, k, v, d_out, out)) or not lse.is_contiguous():
        raise RuntimeError(f"{name}: lse, and the last dimension of the other tensors, must be contiguous (stride 1)")
    check_window(name, causal, window)


@triton.jit
def _rows(
    pointer,
    batch,
    head,
    batch_stride,
    head_stride,
    row_stride,
    row,
    rows,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Load rows `row` of one head, (len(row), BLOCK_D); zeros from row `rows` and column HEAD_DIM on."""
    column = tl.arange(0, BLOCK_D)
    at = pointer + batch * batch_stride + head * head_stride + row.to(tl.int64)[:, None] * row_stride + column[None, :]
    return tl.load(at, mask=(row < rows)[:, None] & (column < HEAD_DIM)[None, :], other=0.0)


@triton.jit
def _store_rows(pointer, values, head, row, rows, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr):
    """Store to a contiguous (heads, rows, HEAD_DIM) tensor."""
    column = tl.arange(0, BLOCK_D)
    at = pointer + (head * rows + row.to(tl.int64)[:, None]) * HEAD_DIM + column[None, :]
    tl.store(at, values.to(pointer.dtype.element_ty), mask=(row < rows)[:, None] & (column < HEAD_DIM)[None, :])


@triton.jit
def _flash_attention_delta(
    out_ptr,
    d_out_ptr,
    delta_ptr,
    out_batch_stride,
    out_head_stride,
    out_row_stride,
    d_out_batch_stride,
    d_out_head_stride,
    d_out_row_stride,
    heads_q,
    seq_q,
    blocks,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ROWS: tl.constexpr,
):
    """delta = sum over head_dim of d_out out; one program per (block of ROWS queries, head, batch)."""
    program = tl.program_id(0)
    query = program % blocks * ROWS + tl.arange(0, ROWS)
    head = (program // blocks % heads_q).to(tl.int64)
    batch = (program // blocks // heads_q).to(tl.int64)
    out = _rows(
        out_ptr, batch, head, out_batch_stride, out_head_stride, out_row_stride, query, seq_q, HEAD_DIM, BLOCK_D
    )
    d_out = _rows(
        d_out_ptr, batch, head, d_out_batch_stride, d_out_head_stride, d_out_row_stride, query, seq_q, HEAD_DIM, BLOCK_D
    )
    delta = tl.sum(out.to(tl.float32) * d_out.to(tl.float32), 1)
    tl.store(delta_ptr + (batch * heads_q + head) * seq_q + query, delta, mask=query < seq_q)


@triton.jit
def _shift(lse_ptr, row, query, seq_q):
    """The log-sum-exp, split in two fp32 numbers: the nearest one and the remainder.

    0 for a query that sees no key; its weights are masked.
    """
    lse = tl.load(lse_ptr + row * seq_q + query, mask=query < seq_q, other=0.0)
    lse = tl.where(lse == float("-inf"), 0.0, lse)
    high = lse.to(tl.float32)
    return high, (lse - high).to(tl.float32)


@triton.jit
def _weights(scores, scale, high, rest):
    """exp(scale scores - high - rest). `high` is subtracted before anything is rounded, as in C++."""
    LOG2_E: tl.constexpr = 1.4426950408889634
    return tl.exp2((tl.fma(scores, scale, -high) - rest) * LOG2_E)


@triton.jit
def _flash_attention_dq(
    q_ptr,
    k_ptr,
    v_ptr,
    d_out_ptr,
    lse_ptr,
    delta_ptr,
    dq_ptr,
    q_batch_stride,
    q_head_stride,
    q_row_stride,
    k_batch_stride,
    k_head_stride,
    k_row_stride,
    v_batch_stride,
    v_head_stride,
    v_row_stride,
    d_out_batch_stride,
    d_out_head_stride,
    d_out_row_stride,
    heads_q,
    group,
    seq_q,
    seq_kv,
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
    """dq = scale ds k of BLOCK_Q queries; one program per (query block, head, batch), longest first."""
    program = tl.program_id(0)
    block = program % query_blocks
    if CAUSAL:
        block = query_blocks - 1 - block
    head = (program // query_blocks % heads_q).to(tl.int64)
    batch = (program // query_blocks // heads_q).to(tl.int64)
    query = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    newest = query + (seq_kv - seq_q)
    q = _rows(q_ptr, batch, head, q_batch_stride, q_head_stride, q_row_stride, query, seq_q, HEAD_DIM, BLOCK_D)
    d_out = _rows(
        d_out_ptr, batch, head, d_out_batch_stride, d_out_head_stride, d_out_row_stride, query, seq_q, HEAD_DIM, BLOCK_D
    )
    row = batch * heads_q + head
    high, rest = _shift(lse_ptr, row, query, seq_q)
    delta = tl.load(delta_ptr + row * seq_q + query, mask=query < seq_q, other=0.0)

    end = tl.maximum(tl.minimum((block + 1) * BLOCK_Q + (seq_kv - seq_q), seq_kv), 0) if CAUSAL else seq_kv
    begin = tl.maximum(block * BLOCK_Q + (seq_kv - seq_q + 1) - window, 0) if WINDOWED else 0
    dq = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    for first_key in tl.range(begin, end, BLOCK_KV):
        key = first_key + tl.arange(0, BLOCK_KV)
        k = _rows(
            k_ptr, batch, head // group, k_batch_stride, k_head_stride, k_row_stride, key, seq_kv, HEAD_DIM, BLOCK_D
        )
        v = _rows(
            v_ptr, batch, head // group, v_batch_stride, v_head_stride, v_row_stride, key, seq_kv, HEAD_DIM, BLOCK_D
        )
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
        seen = (key < seq_kv)[None, :] & (query < seq_q)[:, None]
        if CAUSAL:
            seen = seen & (key[None, :] <= newest[:, None])
        if WINDOWED:
            seen = seen & (key[None, :] > newest[:, None] - window)
        weights = tl.where(seen, _weights(scores, scale, high[:, None], rest[:, None]), 0.0)
        d_weights = tl.dot(d_out, tl.trans(v), input_precision=PRECISION)
        d_scores = weights * (d_weights - delta[:, None])
        dq = tl.dot(d_scores.to(k.dtype), k, dq, input_precision=PRECISION)
    _store_rows(dq_ptr, scale * dq, row, query, seq_q, HEAD_DIM, BLOCK_D)


@triton.jit
def _flash_attention_dkdv(
    q_ptr,
    k_ptr,
    v_ptr,
    d_out_ptr,
    lse_ptr,
    delta_ptr,
    dk_ptr,
    dv_ptr,
    q_batch_stride,
    q_head_stride,
    q_row_stride,
    k_batch_stride,
    k_head_stride,
    k_row_stride,
    v_batch_stride,
    v_head_stride,
    v_row_stride,
    d_out_batch_stride,
    d_out_head_stride,
    d_out_row_stride,
    heads_q,
    group,
    seq_q,
    seq_kv,
    key_blocks,
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
    """dk = scale ds^T q and dv = p^T d_out of BLOCK_KV keys, over the query heads that share them.

    One program per (key block, key head, batch). Scores are transposed: rows are keys.
    """
    program = tl.program_id(0)
    block = program % key_blocks
    heads_kv = heads_q // group
    head_kv = (program // key_blocks % heads_kv).to(tl.int64)
    batch = (program // key_blocks // heads_kv).to(tl.int64)
    key = block * BLOCK_KV + tl.arange(0, BLOCK_KV)
    diagonal = seq_kv - seq_q
    k = _rows(k_ptr, batch, head_kv, k_batch_stride, k_head_stride, k_row_stride, key, seq_kv, HEAD_DIM, BLOCK_D)
    v = _rows(v_ptr, batch, head_kv, v_batch_stride, v_head_stride, v_row_stride, key, seq_kv, HEAD_DIM, BLOCK_D)

    begin = tl.maximum(block * BLOCK_KV - diagonal, 0) // BLOCK_Q * BLOCK_Q if CAUSAL else 0
    last_key = tl.minimum((block + 1) * BLOCK_KV, seq_kv) - 1
    end = tl.minimum(seq_q, last_key - diagonal + window) if WINDOWED else seq_q
    dk = tl.zeros([BLOCK_KV, BLOCK_D], tl.float32)
    dv = tl.zeros([BLOCK_KV, BLOCK_D], tl.float32)
    for member in range(group):
        head = head_kv * group + member
        row = batch * heads_q + head
        for first_query in tl.range(begin, end, BLOCK_Q):
            query = first_query + tl.arange(0, BLOCK_Q)
            newest = query + diagonal
            q = _rows(q_ptr, batch, head, q_batch_stride, q_head_stride, q_row_stride, query, seq_q, HEAD_DIM, BLOCK_D)
            d_out = _rows(
                d_out_ptr,
                batch,
                head,
                d_out_batch_stride,
                d_out_head_stride,
                d_out_row_stride,
                query,
                seq_q,
                HEAD_DIM,
                BLOCK_D,
            )
            high, rest = _shift(lse_ptr, row, query, seq_q)
            delta = tl.load(delta_ptr + row * seq_q + query, mask=query < seq_q, other=0.0)
            scores = tl.dot(k, tl.trans(q), input_precision=PRECISION)
            seen = (key < seq_kv)[:, None] & (query < seq_q)[None, :]
            if CAUSAL:
                seen = seen & (key[:, None] <= newest[None, :])
            if WINDOWED:
                seen = seen & (key[:, None] > newest[None, :] - window)
            weights = tl.where(seen, _weights(scores, scale, high[None, :], rest[None, :]), 0.0)
            dv = tl.dot(weights.to(d_out.dtype), d_out, dv, input_precision=PRECISION)
            d_weights = tl.dot(v, tl.trans(d_out), input_precision=PRECISION)
            d_scores = weights * (d_weights - delta[None, :])
            dk = tl.dot(d_scores.to(q.dtype), q, dk, input_precision=PRECISION)
    head = batch * heads_kv + head_kv
    _store_rows(dk_ptr, scale * dk, head, key, seq_kv, HEAD_DIM, BLOCK_D)
    _store_rows(dv_ptr, dv, head, key, seq_kv, HEAD_DIM, BLOCK_D)
