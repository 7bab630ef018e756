"""Rotary position embedding."""

from __future__ import annotations

import torch

from ..extension import load_operator
from .devices import check_devices


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, interleaved: bool = False) -> torch.Tensor:
    """Each pair of x turned by its position's angle; a new, contiguous tensor of x's shape and dtype.

    x (batch, heads, seq, head_dim) in float16, bfloat16 or float32, head_dim even and contiguous, other strides free;
    cos, sin (seq, head_dim / 2) in float32. A pair is (i, i + head_dim / 2), as in GPT-NeoX, or (2 i, 2 i + 1) if
    interleaved, as in GPT-J; computed in float32. Su et al., "RoFormer" (arXiv:2104.09864, 2021).
    Forward only: there is no gradient.
    Raises RuntimeError with a sentence for a shape, dtype, device or stride it does not take.
    """
    return _rope(x, cos, sin, interleaved)


def _fake_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = False) -> torch.Tensor:
    check_devices("rope", x=x, cos=cos, sin=sin)
    return x.new_empty(x.shape)


_rope = load_operator("rope", fake=_fake_rope)
