"""References of rotary position embedding."""

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


def rope_computed(x: torch.Tensor, positions: torch.Tensor, base: float, interleaved: bool = False) -> torch.Tensor:
    """As rope, by the angles (positions[b] + s) * base ** (-2 i / head_dim) of row s of sequence b."""
    batch, _, seq, head_dim = x.shape
    half = head_dim // 2
    frequencies = base ** (-torch.arange(half, device=x.device, dtype=torch.float64) / half)
    angles = (positions[:, None] + torch.arange(seq, device=x.device))[..., None] * frequencies
    each = (rope(x[b : b + 1], angles[b].cos(), angles[b].sin(), interleaved) for b in range(batch))
    return torch.cat(tuple(each))
