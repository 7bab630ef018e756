"""Scaled dot-product attention in Triton; the formula is in csrc/flash_attention/flash_attention.h."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable

from ..operators._devices import check_devices
from .attention_checks import check_head_dim, check_keys, check_rows, check_window


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashAttentionConfig:
    """One way to launch `_flash_attention`."""

    block_q: int  # queries per program
    block_kv: int  # keys per step
    num_warps: int
    num_stages: int  # stages of the key and value pipeline


def _config(block_q: int, block_kv: int, num_warps: int, num_stages: int) -> FlashAttentionConfig:
    return FlashAttentionConfig(block_q=block_q, block_kv=block_kv, num_warps=num_warps, num_stages=num_stages)


# Compute capability, then head_dim; a GPU uses the row of the newest chip that is not newer than itself. Reasoned from
# shared memory (at most 64, 164, 100 and 227 KB per block), not tuned on any chip yet.
_BY_CHIP_16_BIT = {
    75: {64: _config(64, 64, 4, 1), 128: _config(64, 32, 4, 1), 256: _config(32, 32, 4, 1)},
    80: {64: _config(128, 64, 4, 3), 128: _config(128, 64, 8, 3)},
    86: {64: _config(128, 64, 4, 2), 128: _config(64, 64, 4, 2)},
    90: {64: _config(128, 128, 8, 3), 128: _config(128, 128, 8, 2)},
    120: {64: _config(128, 64, 4, 2), 128: _config(64, 64, 4, 2)},
}
_OTHER_HEAD_DIM_16_BIT = _config(64, 32, 4, 1)
_32_BIT = {64: _config(64, 32, 4, 2), 128: _config(32, 32, 4, 1)}
_OTHER_HEAD_DIM_32_BIT = _config(16, 16, 4, 1)


def flash_attention_config(compute_capability: int, head_dim: int, element_bytes: int) -> FlashAttentionConfig:
    """Config of tracked runs; compute_capability is 10 * major + minor.

    head_dim 96 is padded to a block of 128 and uses its config. Raises ValueError for a GPU older than all in the
    table.
    """
    head_dim = 128 if head_dim == 96 else head_dim
    if element_bytes == 4:
        return _32_BIT.get(head_dim, _OTHER_HEAD_DIM_32_BIT)
    chips = [chip for chip in _BY_CHIP_16_BIT if chip <= compute_capability]
    if not chips:
        raise ValueError(f"no config for compute capability {compute_capability}; the oldest is {min(_BY_CHIP_16_BIT)}")
    return _BY_CHIP_16_BIT[max(chips)].get(head_dim, _OTHER_HEAD_DIM_16_BIT)


_INTERPRETED_AS = 80  # the compute capability whose config the interpreter uses


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.flash_attention, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1).

    Differentiable in q, k and v, once, by the twin of flash_attention_backward; with a bias it is not, and says so.
    """
    if bias is not None:
        if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, bias)):
            raise RuntimeError("triton flash_attention: with a bias it has no gradient; attend under torch.no_grad()")
        from .flash_attention_biased import attend_biased  # imported here, since it imports this module

        return attend_biased(q, k, v, bias, None, causal=causal, scale=scale, window=window)
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        out: torch.Tensor = _Differentiable.apply(q, k, v, causal, scale, window)
        return out
    return _attend(q, k, v, None, causal=causal, scale=scale, window=window)


def flash_attention_with_lse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Triton twin of the operator of that name: the output, and the log-sum-exp of each query\'s scores."""
    lse = q.new_full(q.shape[:3], -torch.inf, dtype=torch.float64)
    if bias is not None:
        from .flash_attention_biased import attend_biased  # imported here, since it imports this module

        return attend_biased(q, k, v, bias, lse, causal=causal, scale=scale, window=window), lse
    return _attend(q, k, v, lse, causal=causal, scale=scale, window=window), lse


class _Differentiable(torch.autograd.Function):
    """The twin as an autograd function."""

    @staticmethod
    def forward(
        ctx: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        causal: bool,
        scale: float | None,
        window: int | None,
    ) -> torch.Tensor:
        out, lse = flash_attention_with_lse(q, k, v, causal=causal, scale=scale, window=window)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.options = {"causal": causal, "scale": scale, "window": window}
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        from .flash_attention_backward import flash_attention_backward  # imported here, since it imports this module

        d_out = d_out if d_out.stride(-1) == 1 else d_out.contiguous()  # autograd may pass any strides
        return (*flash_attention_backward(d_out, *ctx.saved_tensors, **ctx.options), None, None, None)


def _attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lse: torch.Tensor | None,
    *,
    causal: bool,
    scale: float | None,
    window: int | None,
) -> torch.Tensor:
    check_devices("triton flash_attention", q=q, k=k, v=v)
    batch, heads_q, seq_q, head_dim = q.shape
    heads_kv, seq_kv = k.shape[1], k.shape[2]
    check_attention(q, k, v, causal, window)
    out = q.new_empty(q.shape)
    if out.numel() == 0:
        return out
    config = flash_attention_config(compute_capability(q.device), head_dim, q.element_size())
    query_blocks = triton.cdiv(seq_q, config.block_q)
    with torch.cuda.device_of(q):  # Triton launches on the current device
        _flash_attention[(query_blocks * batch * heads_q,)](
            q,
            k,
            v,
            out,
            out if lse is None else lse,  # a placeholder that is not written
            *q.stride()[:3],
            *k.stride()[:3],
            *v.stride()[:3],
            *out.stride()[:3],
            heads_q,
            heads_q // heads_kv,
            seq_q,
            seq_kv,
            query_blocks,
            head_dim**-0.5 if scale is None else scale,
            seq_kv if window is None else min(window, seq_kv),
            WITH_LSE=lse is not None,
            **options(q, seq_kv, causal, window, config),
        )
    return out


def compute_capability(device: torch.device) -> int:
    """10 * major + minor, the key of the attention twins' configs; for a CPU, the one that is interpreted."""
    if device.type != "cuda":
        return _INTERPRETED_AS
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def check_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, window: int | None) -> None:
    """Check q, k and v of four dimensions. Raises RuntimeError."""
    operator = "triton flash_attention"
    check_keys(operator, q, k, v)
    check_head_dim(operator, q.shape[3])
    check_rows(operator, q, k, v)
    check_window(operator, causal, window)


def options(
    q: torch.Tensor, seq_kv: int, causal: bool, window: int | None, config: FlashAttentionConfig
) -> dict[str, Any]:
    """Compile-time arguments shared by all forward twins, for at most seq_kv keys."""
    head_dim = q.shape[-1]
    return {
        "CAUSAL": causal,
        "WINDOWED": window is not None and window < seq_kv,
        "PRECISION": "ieee" if q.dtype == torch.float32 else "tf32",
        "HEAD_DIM": head_dim,
        "BLOCK_D": triton.next_power_of_2(head_dim),
        "BLOCK_Q": config.block_q,
        "BLOCK_KV": config.block_kv,
        "num_warps": config.num_warps,
        "num_stages": config.num_stages,
    }


@triton.jit
def _flash_attention(
    q_ptr,
    k_ptr,
    v_ptr,
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
    """out = softmax(scale q k^T) v for BLOCK_Q queries of one head; fp32 inside.

    One program per (query block, head, batch); query blocks vary fastest and, if causal, the longest come first.
    Weights are exp(scale (score - maximum)), with an online softmax. With a window the loop starts at the first key
    that any query of the block sees, and every step is masked.
    """
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
    q_at = q_ptr + batch * q_batch_stride + head * q_head_stride + rows[:, None] * q_row_stride + column[None, :]
    held = live[:, None] if BLOCK_D == HEAD_DIM else live[:, None] & (column < HEAD_DIM)[None, :]
    q = tl.load(q_at, mask=held, other=0.0)
    k_ptr += batch * k_batch_stride + head // group * k_head_stride
    v_ptr += batch * v_batch_stride + head // group * v_head_stride

    seen = tl.minimum(query * 0 + seq_kv, query + (seq_kv - seq_q + 1)) if CAUSAL else query * 0 + seq_kv
    # All queries of the block see the keys below seen_by_all, none sees a key from `end` on.
    seen_by_all = tl.maximum(tl.minimum(block * BLOCK_Q + (seq_kv - seq_q + 1), seq_kv), 0) if CAUSAL else seq_kv
    end = tl.maximum(tl.minimum((block + 1) * BLOCK_Q + (seq_kv - seq_q), seq_kv), 0) if CAUSAL else seq_kv
    begin = tl.maximum(block * BLOCK_Q + (seq_kv - seq_q + 1) - window, 0) if WINDOWED else 0
    whole = begin if WINDOWED else seen_by_all // BLOCK_KV * BLOCK_KV

    LOG2_E: tl.constexpr = 1.4426950408889634
    scale_log2 = scale * LOG2_E
    top = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    out = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    for first_key in tl.range(begin, whole, BLOCK_KV):
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
            MASKED=False,
            WINDOWED=False,
            PRECISION=PRECISION,
            HEAD_DIM=HEAD_DIM,
            BLOCK_D=BLOCK_D,
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
    out_at = out_ptr + batch * out_batch_stride + head * out_head_stride
    out_at += rows[:, None] * out_row_stride + column[None, :]
    tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=held)
    if WITH_LSE:
        lse = tl.where(
            total == 0.0, float("-inf"), top.to(tl.float64) * scale + tl.log(tl.where(total == 0.0, 1.0, total))
        )
        tl.store(lse_ptr + (batch * heads_q + head) * seq_q + query, lse, mask=live)


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
    window,
    scale_log2,
    MASKED: tl.constexpr,
    WINDOWED: tl.constexpr,
    PRECISION: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_KV: tl.constexpr,
):
    """One step of the online softmax: BLOCK_KV keys from first_key on; query i sees those below seen[i].

    With a window, those from seen[i] - window on.
    """
    key = first_key + tl.arange(0, BLOCK_KV)
    column = tl.arange(0, BLOCK_D)
    rows = key.to(tl.int64)
    k_at = k_ptr + rows[None, :] * k_row_stride + column[:, None]
    v_at = v_ptr + rows[:, None] * v_row_stride + column[None, :]
    if BLOCK_D != HEAD_DIM:
        k = tl.load(k_at, mask=(key < seq_kv)[None, :] & (column < HEAD_DIM)[:, None], other=0.0)
        v = tl.load(v_at, mask=(key < seq_kv)[:, None] & (column < HEAD_DIM)[None, :], other=0.0)
    elif MASKED:
        k = tl.load(k_at, mask=(key < seq_kv)[None, :], other=0.0)
        v = tl.load(v_at, mask=(key < seq_kv)[:, None], other=0.0)
    else:
        k = tl.load(k_at)
        v = tl.load(v_at)
    scores = tl.dot(q, k, input_precision=PRECISION)
    if MASKED:
        scores = tl.where(key[None, :] < seen[:, None], scores, float("-inf"))
    if WINDOWED:  # seen of a live query is its position + 1, so no key is newer
        scores = tl.where(key[None, :] >= seen[:, None] - window, scores, float("-inf"))
    new_top = tl.maximum(top, tl.max(scores, 1))
    # The maximum is subtracted before scaling: scaling first, or in one FMA, would round large scores by more
    # than they differ.
    # A query that has seen no key has the maximum -inf: subtracting 0 gives weights 0, not exp(-inf + inf).
    base = tl.where(new_top == float("-inf"), 0.0, new_top)
    weights = tl.exp2((scores - base[:, None]) * scale_log2)
    shrink = tl.exp2((top - base) * scale_log2)
    total = total * shrink + tl.sum(weights, 1)
    out = tl.dot(weights.to(v.dtype), v, out * shrink[:, None], input_precision=PRECISION)
    return out, new_top, total
