"""How the output of attention lies in memory."""

from __future__ import annotations

import torch


def empty_like_queries(q: torch.Tensor) -> torch.Tensor:
    """What csrc/bindings/flash_attention_operands.cpp allocates for the output of q (batch, heads, seq, head_dim)."""
    tokens = q.transpose(1, 2)
    if q.is_contiguous() or not tokens.is_contiguous():
        return q.new_empty(q.shape)
    return q.new_empty(tokens.shape).transpose(1, 2)
