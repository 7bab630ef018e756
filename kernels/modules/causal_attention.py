"""Causal attention by whichever kernel suits the number of new tokens."""

from __future__ import annotations

import torch

from ..operators.decode_attention import decode_attention
from ..operators.flash_attention import flash_attention

DECODE_TOKENS = 8  # so many at most are decode_attention's


def causal_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None, window: int | None = None
) -> torch.Tensor:
    """softmax(scale q k^T) v, causal and aligned bottom-right; shapes, dtypes and errors as in flash_attention.

    With a window a query sees that many of its newest keys at most. Differentiable where flash_attention is.
    """
    if window is not None and window >= k.shape[2]:
        window = None
    if window is not None and q.shape[2] == 1:  # one token sees the newest keys and no others
        k, v, window = k[:, :, -window:], v[:, :, -window:], None
    trained = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    if q.shape[2] <= DECODE_TOKENS and window is None and not trained:
        return decode_attention(q, k, v, scale=scale)
    return flash_attention(q, k, v, causal=True, scale=scale, window=window)
