"""Reference of rotary position embedding."""

import torch


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = False) -> torch.Tensor:
    """Each pair of x turned by its position's angle, in float64.

    x (batch, heads, seq, head_dim); cos, sin (seq, head_dim / 2). A pair is (i, i + head_dim / 2), as in
    GPT-NeoX, or (2 i, 2 i + 1) if interleaved, as in GPT-J. Su et al., "RoFormer" (arXiv:2104.09864, 2021).
    """
    x, cos, sin = x.double(), cos.double(), sin.double()
    if interleaved:
        first, second = x[..., 0::2], x[..., 1::2]
    else:
        first, second = x.chunk(2, dim=-1)
    turned_first = first * cos - second * sin
    turned_second = second * cos + first * sin
    if interleaved:
        return torch.stack((turned_first, turned_second), dim=-1).flatten(-2)
    return torch.cat((turned_first, turned_second), dim=-1)
