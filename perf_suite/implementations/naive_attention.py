"""Implementations of naive_attention; SDPA stands beside it for the ladder's end."""

from warpbench.prepared import Prepared

from ..inputs.flash_attention import AttentionInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator
from .flash_attention import eager, sdpa

__all__ = ["eager", "sdpa", "triton", "warpwatch"]


def warpwatch(inputs: AttentionInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    attention = warpwatch_operator("naive_attention")
    return Prepared(run=lambda: attention(inputs.q, inputs.k, inputs.v, causal=inputs.causal))


def triton(inputs: AttentionInputs) -> Prepared:
    """Its Triton twin."""
    attention = triton_operator("naive_attention")
    return Prepared(run=lambda: attention(inputs.q, inputs.k, inputs.v, causal=inputs.causal))
