"""Implementations of int8_decode_attention. The baselines read the same keys and values unquantized."""

from warpbench.prepared import Prepared

from ..inputs.decode_attention import DecodeInputs
from ..inputs.int8_decode_attention import Int8DecodeInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator
from . import decode_attention


def warpwatch(inputs: Int8DecodeInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    attention = warpwatch_operator("int8_decode_attention")
    return Prepared(run=lambda: attention(inputs.q, *inputs.cache(), inputs.lengths))


def triton(inputs: Int8DecodeInputs) -> Prepared:
    """Its Triton twin."""
    attention = triton_operator("int8_decode_attention")
    return Prepared(run=lambda: attention(inputs.q, *inputs.cache(), inputs.lengths))


def unquantized(inputs: Int8DecodeInputs) -> Prepared:
    """The commit's decode_attention over the same keys and values in the dtype of q: what the cache's format buys."""
    return decode_attention.warpwatch(_unquantized(inputs))


def sdpa(inputs: Int8DecodeInputs) -> Prepared:
    """scaled_dot_product_attention over the same keys and values in the dtype of q, prepared ahead of the call."""
    return decode_attention.sdpa(_unquantized(inputs))


def eager(inputs: Int8DecodeInputs) -> Prepared:
    """Plain PyTorch over the same keys and values in the dtype of q, prepared ahead of the call."""
    return decode_attention.eager(_unquantized(inputs))


def _unquantized(inputs: Int8DecodeInputs) -> DecodeInputs:
    length = int(inputs.lengths[0])  # that of all
    k, v = (x[:, :, :length].to(inputs.q.dtype).contiguous() for x in inputs.dequantized())
    return DecodeInputs(q=inputs.q, k=k, v=v)
