"""References of the controls."""

import torch


def triad(b: torch.Tensor, c: torch.Tensor, scale: float) -> torch.Tensor:
    """b + scale * c in float64; b, c (elements)."""
    return b.double().add_(c, alpha=scale)


def matmul(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x weight^T in float64; x (rows, depth), weight (outputs, depth), out (rows, outputs)."""
    return x.double() @ weight.double().T
