"""Scaled dot-product attention with a bias; flash_attention(bias=...) calls it."""

from __future__ import annotations

from typing import Any

import torch

from ..extension import load_operator

_SCORES_AT_ONCE = 1 << 24  # scores per head and step of the backward pass: 64 MiB in float32


def empty_like_queries(q: torch.Tensor) -> torch.Tensor:
    """Allocate the output for q (batch, heads, seq, head_dim) with the layout of csrc/flash_attention/operands.cpp."""
    tokens = q.transpose(1, 2)
    if q.is_contiguous() or not tokens.is_contiguous():
        return q.new_empty(q.shape)
    return q.new_empty(tokens.shape).transpose(1, 2)


def flash_attention_biased(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
) -> torch.Tensor:
    """softmax(scale q k^T + bias) v; arguments and errors as in flash_attention."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, bias)):
        out: torch.Tensor = _flash_attention_biased_with_lse(q, k, v, bias, causal, scale, window)[0]
        return out
    return _flash_attention_biased(q, k, v, bias, causal, scale, window)


def flash_attention_biased_with_lse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same, plus the log-sum-exp of each query's scores, bias included."""
    return _flash_attention_biased_with_lse(q, k, v, bias, causal, scale, window)


@torch.library.custom_op("warpwatch::flash_attention_biased_backward", mutates_args=())
def _flash_attention_biased_backward(
    d_out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor,
    out: torch.Tensor,
    causal: bool,
    scale: float | None,
    window: int | None,
    with_d_bias: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """dq, dk, dv and d_bias (empty unless requested), by PyTorch's products in float32, a block of queries at a time.

    The formulas of csrc/flash_attention/flash_attention_backward.h with weights softmax(scale q k^T + bias), and d_bias
    = ds, summed over the dimensions in which the bias is broadcast.
    """
    batch, heads_q, seq_q, head_dim = q.shape
    seq_kv, group = k.shape[2], heads_q // k.shape[1]
    scale = head_dim**-0.5 if scale is None else scale
    whole = bias.expand(batch, heads_q, seq_q, seq_kv)
    dq = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
    dk = torch.zeros(k.shape, dtype=torch.float32, device=q.device)
    dv = torch.zeros(v.shape, dtype=torch.float32, device=q.device)
    d_bias = torch.zeros(bias.shape if with_d_bias else (0,), dtype=torch.float32, device=q.device)
    d_whole = d_bias.expand(whole.shape) if with_d_bias else None
    rows_at_once = max(_SCORES_AT_ONCE // max(seq_kv, 1), 1)
    key = torch.arange(seq_kv, device=q.device)
    for b in range(batch):
        for head in range(heads_q):
            keys, values = k[b, head // group].float(), v[b, head // group].float()
            for first in range(0, seq_q, rows_at_once):
                rows = slice(first, min(first + rows_at_once, seq_q))
                queries, d_rows = q[b, head, rows].float(), d_out[b, head, rows].float()
                scores = scale * (queries @ keys.T) + whole[b, head, rows].float()
                if causal:
                    newest = torch.arange(rows.start, rows.stop, device=q.device)[:, None] + (seq_kv - seq_q)
                    hidden = key > newest
                    if window is not None:
                        hidden |= key <= newest - window
                    scores = scores.masked_fill(hidden, -torch.inf)
                # Not from the log-sum-exp, which a bias of -3.4e38 absorbs. A query that sees no key has zero weights.
                weights = torch.softmax(scores, -1).masked_fill((scores == -torch.inf).all(-1, keepdim=True), 0)
                delta = (d_rows * out[b, head, rows].float()).sum(-1, keepdim=True)
                d_scores = weights * (d_rows @ values.T - delta)
                dq[b, head, rows] = scale * (d_scores @ keys)
                dk[b, head // group] += scale * (d_scores.T @ queries)
                dv[b, head // group] += weights.T @ d_rows
                if d_whole is not None:
                    place = d_whole[b, head, rows]
                    own = [d for d in range(2) if place.stride(d) == 0 and place.shape[d] > 1]
                    part = d_scores.sum(own, keepdim=True) if own else d_scores
                    place[tuple(slice(0, 1) if d in own else slice(None) for d in range(2))] += part
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), d_bias.to(bias.dtype)


_flash_attention_biased_backward.register_fake(
    lambda d_out, q, k, v, bias, *others: (
        *(x.new_empty(x.shape) for x in (q, k, v)),
        bias.new_empty(bias.shape if others[-1] else (0,)),
    )
)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k, v, bias, *ctx.options = inputs
    out, lse = output
    ctx.mark_non_differentiable(lse)
    ctx.save_for_backward(q, k, v, bias, out)


def _differentiate(ctx: Any, d_out: torch.Tensor, _d_lse: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    with_d_bias = ctx.needs_input_grad[3]
    dq, dk, dv, d_bias = _flash_attention_biased_backward(d_out, *ctx.saved_tensors, *ctx.options, with_d_bias)
    return dq, dk, dv, d_bias if with_d_bias else None, None, None, None


_flash_attention_biased = load_operator("flash_attention_biased", result=lambda q, **_: empty_like_queries(q))
_flash_attention_biased_with_lse = load_operator(
    "flash_attention_biased_with_lse",
    result=lambda q, **_: (empty_like_queries(q), q.new_empty(q.shape[:3], dtype=torch.float64)),
)
if hasattr(torch.ops.warpwatch, "flash_attention_biased_with_lse"):
    torch.library.register_autograd("warpwatch::flash_attention_biased_with_lse", _differentiate, setup_context=_keep)
