"""Implementations of flash_attention_varlen."""

import torch
from torch.nn.attention import SDPBackend
from torch.nn.functional import scaled_dot_product_attention

from warpbench.prepared import Prepared, UnavailableError

from ..inputs.flash_attention_varlen import PackedAttentionInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: PackedAttentionInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    attention = warpwatch_operator("flash_attention_varlen")
    return Prepared(run=lambda: attention(*inputs.arguments, causal=inputs.causal))


def triton(inputs: PackedAttentionInputs) -> Prepared:
    """Its Triton twin."""
    attention = triton_operator("flash_attention_varlen")
    return Prepared(run=lambda: attention(*inputs.arguments, causal=inputs.causal))


def sdpa(inputs: PackedAttentionInputs) -> Prepared:
    """SDPA's FlashAttention-2 backend for packed sequences, as torch.nn.attention.varlen calls it.

    Raises UnavailableError for fp32.
    """
    q, k, v, ends, _, longest, _ = inputs.arguments
    if q.dtype == torch.float32:
        raise UnavailableError("FlashAttention-2 takes fp16 and bf16 alone")
    forward = torch.ops.aten._flash_attention_forward

    def run() -> torch.Tensor:
        out: torch.Tensor = forward(q, k, v, ends, ends, longest, longest, 0.0, inputs.causal, False)[0]
        return out

    return Prepared(run=run, backend=SDPBackend.FLASH_ATTENTION.name.lower())


def eager(inputs: PackedAttentionInputs) -> Prepared:
    """scaled_dot_product_attention of one sequence after the other, put together again."""
    sequences = inputs.sequences()
    grouped = inputs.q.shape[1] != inputs.k.shape[1]

    def run() -> torch.Tensor:
        each = [
            scaled_dot_product_attention(q, k, v, is_causal=inputs.causal, enable_gqa=grouped) for q, k, v in sequences
        ]
        return torch.cat([out[0].transpose(0, 1) for out in each])

    return Prepared(run=run)
