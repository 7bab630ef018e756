"""Sums over any dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..extension import load_operator


def reduce_sum(x: torch.Tensor, dim: int | Sequence[int] | None = None, *, keepdim: bool = False) -> torch.Tensor:
    """The sum of x over dim, one dimension, several, or all; a new, contiguous tensor of x's dtype.

    x is float16, bfloat16 or float32, of any shape; it is copied if not contiguous. Summed in float32, also between
    groups of neighbouring dimensions, and rounded once. The order of the additions depends only on the shape and on x's
    alignment: no atomics, so a repeated call gives the same bits. keepdim keeps the summed dimensions with size one. An
    empty sum is zero. Forward only: there is no gradient.
    Raises RuntimeError for an unsupported dtype or dim.
    """
    if dim is None:
        dim = range(x.dim())
    return _reduce_sum(x, [dim] if isinstance(dim, int) else list(dim), keepdim)


def _sums(x: torch.Tensor, dim: list[int], keepdim: bool) -> torch.Tensor:
    summed = {axis % x.dim() for axis in dim}
    sizes = [1 if axis in summed else size for axis, size in enumerate(x.shape) if keepdim or axis not in summed]
    return x.new_empty(sizes)


_reduce_sum = load_operator("reduce_sum", result=_sums)
