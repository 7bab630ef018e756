"""Rotary position embedding."""

from __future__ import annotations

import torch

from ..extension import load_operator


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, interleaved: bool = False) -> torch.Tensor:
    """Rotate each pair of x by its position's angle; a new, contiguous tensor of x's shape and dtype.

    x (batch, heads, seq, head_dim) in float16, bfloat16 or float32, head_dim even and contiguous, other strides free;
    cos, sin (seq, head_dim / 2) in float32. A pair is (i, i + head_dim / 2), as in GPT-NeoX, or (2 i, 2 i + 1) if
    interleaved, as in GPT-J; computed in float32.
    Su et al., "RoFormer" (arXiv:2104.09864, 2021).
    Forward only: there is no gradient.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    return _rope(x, cos, sin, interleaved)


def rope_(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, interleaved: bool = False) -> None:
    """Like rope, in place: any strides, but x's elements must not overlap in memory."""
    _rope_(x, cos, sin, interleaved)


def rope_computed(
    x: torch.Tensor, positions: torch.Tensor, *, base: float = 10000.0, interleaved: bool = False
) -> torch.Tensor:
    """Like rope, with computed angles instead of tables; a new, contiguous tensor of x's shape and dtype.

    positions (batch) int64, contiguous, on x's device: the position of each sequence's first row. Row s rotates pair i
    by (positions + s) * base ** (-2 i / head_dim) radians, accurate to fp32's rounding at any position. base is at
    least 1, head_dim at most 512.
    Raises RuntimeError as rope does.
    """
    return _rope_computed(x, positions, base, interleaved)


def rope_computed_(
    x: torch.Tensor, positions: torch.Tensor, *, base: float = 10000.0, interleaved: bool = False
) -> None:
    """Like rope_computed, in place: x's elements must not overlap in memory."""
    _rope_computed_(x, positions, base, interleaved)


_rope = load_operator("rope")
_rope_ = load_operator("rope_")
_rope_computed = load_operator("rope_computed")
_rope_computed_ = load_operator("rope_computed_")
