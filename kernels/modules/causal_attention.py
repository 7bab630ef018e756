"""Causal attention by whichever kernel suits the number of new tokens."""

from __future__ import annotations

import torch

from ..operators.decode_attention import decode_attention
from ..operators.flash_attention import flash_attention

DECODE_TOKENS = 8  # so many at most are decode_attention's


def causal_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    """softmax(scale q k^T) v, causal and aligned bottom-right; shapes, dtypes and errors as in flash_attention."""
    if q.shape[2] <= DECODE_TOKENS:
        return decode_attention(q, k, v, scale=scale)
    return flash_attention(q, k, v, causal=True, scale=scale)
