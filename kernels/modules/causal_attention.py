"""Causal attention with the kernel that fits the number of new tokens."""

from __future__ import annotations

import torch

from ..operators.decode_attention import decode_attention
from ..operators.flash_attention import flash_attention

DECODE_TOKENS = 8  # up to this many new tokens run decode_attention


def causal_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None, window: int | None = None
) -> torch.Tensor:
    """softmax(scale q k^T) v, causal and aligned bottom-right; shapes, dtypes and errors as in flash_attention.

    With a window, a query sees at most that many of its newest keys. Differentiable where flash_attention is.
    """
    if window is not None and window >= k.shape[2]:
        window = None
    if window is not None and q.shape[2] == 1:  # a single token sees the newest keys only
        k, v, window = k[:, :, -window:], v[:, :, -window:], None
    if q.shape[2] <= DECODE_TOKENS and window is None and not _is_trained(q, k, v):
        return decode_attention(q, k, v, scale=scale)
    return flash_attention(q, k, v, causal=True, scale=scale, window=window)


def causal_attention_to(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor, scale: float | None = None
) -> torch.Tensor:
    """causal_attention to the first lengths[b] keys of sequence b, of which the last are the new tokens' own.

    lengths (batch) int32 on q's device. With up to DECODE_TOKENS new tokens the host does not read it, so that the call
    can be captured in a CUDA graph; with more it does, which a capture does not allow.
    """
    if q.shape[2] <= DECODE_TOKENS and not _is_trained(q, k, v):
        return decode_attention(q, k, v, lengths, scale=scale)
    known = lengths.tolist()
    if len(set(known)) == 1:
        return flash_attention(q, k[:, :, : known[0]], v[:, :, : known[0]], causal=True, scale=scale)
    rows = [
        flash_attention(q[i : i + 1], k[i : i + 1, :, :length], v[i : i + 1, :, :length], causal=True, scale=scale)
        for i, length in enumerate(known)
    ]
    return torch.cat(rows)


def _is_trained(*tensors: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and any(
        tensor.requires_grad for tensor in tensors
    )  # decode_attention has no gradient
