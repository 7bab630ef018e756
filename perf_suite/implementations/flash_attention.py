"""Implementations of flash_attention."""

from typing import Any

import torch
from torch.nn.attention import SDPBackend
from torch.nn.functional import scaled_dot_product_attention

from warpbench.prepared import Prepared, UnavailableError

from ..inputs.flash_attention import AttentionInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: AttentionInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    attention = warpwatch_operator("flash_attention")
    return Prepared(run=lambda: attention(inputs.q, inputs.k, inputs.v, **inputs.options))


def triton(inputs: AttentionInputs) -> Prepared:
    """Its Triton twin."""
    attention = triton_operator("flash_attention")
    return Prepared(run=lambda: attention(inputs.q, inputs.k, inputs.v, **inputs.options))


def sdpa(inputs: AttentionInputs) -> Prepared:
    """PyTorch's scaled_dot_product_attention with the backend it chooses by itself.

    A window is a mask to it, and so is a bias. Raises UnavailableError for a causal mask over unequal lengths, which
    SDPA aligns top-left and we bottom-right, and for one beside a bias.
    """
    q, k, v = inputs.q, inputs.k, inputs.v
    if inputs.causal and q.shape[2] != k.shape[2]:
        raise UnavailableError("SDPA's causal mask is aligned top-left, so unequal lengths mean another result")
    options: dict[str, Any] = {"enable_gqa": q.shape[1] != k.shape[1]}
    if inputs.bias is not None:
        if inputs.causal:
            raise UnavailableError("SDPA takes no bias beside its causal mask")
        options["attn_mask"] = inputs.bias.expand(*q.shape[:3], k.shape[2])
    elif inputs.window is None:
        options["is_causal"] = inputs.causal
    else:
        options["attn_mask"] = ~hidden(inputs)
    choice = torch._fused_sdp_choice(q, k, v, **options)
    return Prepared(
        run=lambda: scaled_dot_product_attention(q, k, v, **options), backend=SDPBackend(choice).name.lower()
    )


def eager(inputs: AttentionInputs) -> Prepared:
    """Scores, mask, softmax and product in plain PyTorch, the scores going through memory."""
    q, k, v = inputs.q, inputs.k, inputs.v
    group = q.shape[1] // k.shape[1]
    unseen = hidden(inputs) if inputs.causal else None

    def run() -> torch.Tensor:
        keys, values = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        scores = (q @ keys.transpose(-2, -1)) * q.shape[-1] ** -0.5
        if inputs.bias is not None:
            scores = scores + inputs.bias
        if unseen is not None:
            scores = scores.masked_fill(unseen, -torch.inf)
        return torch.softmax(scores, dim=-1) @ values

    return Prepared(run=run)


def hidden(inputs: AttentionInputs) -> torch.Tensor:
    """The pairs (seq_q, seq_kv) that the causal mask hides, and those that are older than the window."""
    seq_q, seq_kv = inputs.q.shape[2], inputs.k.shape[2]
    everything = torch.ones(seq_q, seq_kv, dtype=torch.bool, device=inputs.q.device)
    newer = everything.triu(seq_kv - seq_q + 1)
    return newer if inputs.window is None else newer | everything.tril(seq_kv - seq_q - inputs.window)
