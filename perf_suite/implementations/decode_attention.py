"""Implementations of decode_attention."""

import torch
from torch.nn.attention import SDPBackend
from torch.nn.functional import scaled_dot_product_attention

from warpbench.prepared import Prepared

from ..inputs.decode_attention import DecodeInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: DecodeInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    attention = warpwatch_operator("decode_attention")
    return Prepared(run=lambda: attention(inputs.q, inputs.k, inputs.v))


def triton(inputs: DecodeInputs) -> Prepared:
    """Its Triton twin."""
    attention = triton_operator("decode_attention")
    return Prepared(run=lambda: attention(inputs.q, inputs.k, inputs.v))


def sdpa(inputs: DecodeInputs) -> Prepared:
    """PyTorch's scaled_dot_product_attention with the backend it chooses by itself.

    For several tokens it gets a mask, since its own causal one is aligned top-left.
    """
    q, k, v = inputs.q, inputs.k, inputs.v
    mask = None if q.shape[2] == 1 else _seen(q, k)
    grouped = q.shape[1] != k.shape[1]
    choice = torch._fused_sdp_choice(q, k, v, attn_mask=mask, enable_gqa=grouped)
    return Prepared(
        run=lambda: scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=grouped),
        backend=SDPBackend(choice).name.lower(),
    )


def eager(inputs: DecodeInputs) -> Prepared:
    """Scores, mask, softmax and product in plain PyTorch, the query heads of a key head as rows of one matrix."""
    q, k, v = inputs.q, inputs.k, inputs.v
    batch, heads_q, seq_q, head_dim = q.shape
    packed = (batch, k.shape[1], heads_q // k.shape[1] * seq_q, head_dim)
    hidden = ~_seen(q, k).repeat(heads_q // k.shape[1], 1)

    def run() -> torch.Tensor:
        scores = (q.reshape(packed) @ k.transpose(-2, -1)) * head_dim**-0.5
        if seq_q > 1:
            scores = scores.masked_fill(hidden, -torch.inf)
        return (torch.softmax(scores, dim=-1) @ v).view(q.shape)

    return Prepared(run=run)


def _seen(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """(seq_q, seq_kv): which token sees which key."""
    return torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril(k.shape[2] - q.shape[2])
