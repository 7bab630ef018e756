"""Implementations of flash_attention."""

import torch
from torch.nn.attention import SDPBackend
from torch.nn.functional import scaled_dot_product_attention

from ..inputs.flash_attention import AttentionInputs
from . import Prepared, UnavailableError
from .warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: AttentionInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    attention = warpwatch_operator("flash_attention")
    return Prepared(run=lambda: attention(inputs.q, inputs.k, inputs.v, causal=inputs.causal))


def triton(inputs: AttentionInputs) -> Prepared:
    """Its Triton twin."""
    attention = triton_operator("flash_attention")
    return Prepared(run=lambda: attention(inputs.q, inputs.k, inputs.v, causal=inputs.causal))


def sdpa(inputs: AttentionInputs) -> Prepared:
    """PyTorch's scaled_dot_product_attention with the backend it chooses by itself.

    Raises UnavailableError for a causal mask over unequal lengths: SDPA aligns it top-left, we bottom-right.
    """
    q, k, v = inputs.q, inputs.k, inputs.v
    if inputs.causal and q.shape[2] != k.shape[2]:
        raise UnavailableError("SDPA's causal mask is aligned top-left, so unequal lengths mean another result")
    grouped = q.shape[1] != k.shape[1]
    choice = torch._fused_sdp_choice(q, k, v, is_causal=inputs.causal, enable_gqa=grouped)
    return Prepared(
        run=lambda: scaled_dot_product_attention(q, k, v, is_causal=inputs.causal, enable_gqa=grouped),
        backend=SDPBackend(choice).name.lower(),
    )


def eager(inputs: AttentionInputs) -> Prepared:
    """Scores, mask, softmax and product in plain PyTorch, the scores going through memory."""
    q, k, v = inputs.q, inputs.k, inputs.v
    group = q.shape[1] // k.shape[1]
    seq_q, seq_kv = q.shape[2], k.shape[2]
    hidden = torch.ones(seq_q, seq_kv, dtype=torch.bool, device=q.device).triu(seq_kv - seq_q + 1)

    def run() -> torch.Tensor:
        keys, values = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        scores = (q @ keys.transpose(-2, -1)) * q.shape[-1] ** -0.5
        if inputs.causal:
            scores = scores.masked_fill(hidden, -torch.inf)
        return torch.softmax(scores, dim=-1) @ values

    return Prepared(run=run)
