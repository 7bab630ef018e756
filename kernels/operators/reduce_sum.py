"""Sums over any dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..extension import load_operator


def reduce_sum(x: torch.Tensor, dim: int | Sequence[int] | None = None, *, keepdim: bool = False) -> torch.Tensor:
    """The sum of x over dim, one dimension or several, or over all of them; a new, contiguous tensor of x's dtype.

    x is float16, bfloat16 or float32, of any shape; where it is not contiguous, it is copied. Summed in float32, from
    one group of neighbouring dimensions to the next too, and rounded once. The order of the additions depends on the
    shape and on where x begins: no atomics, so a call repeated gives the same bits. keepdim leaves the dimensions that
    were summed with size one. A sum of nothing is zero.
    Forward only: there is no gradient.
    Raises RuntimeError with a sentence for a dtype or a dim it does not take.
    """
    if dim is None:
        dim = range(x.dim())
    return _reduce_sum(x, [dim] if isinstance(dim, int) else list(dim), keepdim)


def _sums(x: torch.Tensor, dim: list[int], keepdim: bool) -> torch.Tensor:
    summed = {axis % x.dim() for axis in dim}
    sizes = [1 if axis in summed else size for axis, size in enumerate(x.shape) if keepdim or axis not in summed]
    return x.new_empty(sizes)


_reduce_sum = load_operator("reduce_sum", result=_sums)
