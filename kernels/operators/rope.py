"""Rotary position embedding."""

from __future__ import annotations

import torch

from ..extension import load_operator


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, interleaved: bool = False) -> torch.Tensor:
    """Each pair of x turned by its position's angle; a new, contiguous tensor of x's shape and dtype.

    x (batch, heads, seq, head_dim) in float16, bfloat16 or float32, head_dim even and contiguous, other strides free;
    cos, sin (seq, head_dim / 2) in float32. A pair is (i, i + head_dim / 2), as in GPT-NeoX, or (2 i, 2 i + 1) if
    interleaved, as in GPT-J; computed in float32. Su et al., "RoFormer" (arXiv:2104.09864, 2021).
    Forward only: there is no gradient.
    Raises RuntimeError with a sentence for a shape, dtype, device or stride it does not take.
    """
    return _rope(x, cos, sin, interleaved)


def rope_(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, interleaved: bool = False) -> None:
    """As rope, in place: x may have free strides as there, but must not show one memory in several places."""
    _rope_(x, cos, sin, interleaved)


def rope_computed(
    x: torch.Tensor, positions: torch.Tensor, *, base: float = 10000.0, interleaved: bool = False
) -> torch.Tensor:
    """As rope, with angles computed and not read from a table; a new, contiguous tensor of x's shape and dtype.

    positions (batch) int64, contiguous, on x's device: where each sequence's first row stands; row s of it turns pair i
    by (positions + s) * base ** (-2 i / head_dim) radians, right to fp32's rounding at any position. base is 1 or more,
    head_dim 512 at most.
    Raises RuntimeError as rope does.
    """
    return _rope_computed(x, positions, base, interleaved)


def rope_computed_(
    x: torch.Tensor, positions: torch.Tensor, *, base: float = 10000.0, interleaved: bool = False
) -> None:
    """As rope_computed, in place: x must not show one memory in several places."""
    _rope_computed_(x, positions, base, interleaved)


_rope = load_operator("rope")
_rope_ = load_operator("rope_")
_rope_computed = load_operator("rope_computed")
_rope_computed_ = load_operator("rope_computed_")
