"""Reference of addition."""

import torch


def vector_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a + b in float64."""
    return a.double() + b.double()
