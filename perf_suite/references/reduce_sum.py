"""Reference of a sum."""

import torch


def reduce_sum(x: torch.Tensor, dim: tuple[int, ...], keepdim: bool = False) -> torch.Tensor:
    """The sum of x over dim in float64."""
    return x.double().sum(dim=dim, keepdim=keepdim)
