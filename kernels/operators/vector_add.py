"""Addition of two tensors."""

from __future__ import annotations

import torch

from ..extension import load_operator


def vector_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a + b, element by element; a new, contiguous tensor.

    a and b have the same shape, any, and the same dtype, float16, bfloat16 or float32; both are contiguous. Added in
    float32 and rounded once, as PyTorch does. No broadcasting.
    Forward only: there is no gradient.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    return _vector_add(a, b)


_vector_add = load_operator("vector_add")
