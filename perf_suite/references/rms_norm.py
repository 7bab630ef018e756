"""References of root-mean-square normalisation."""

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """x times weight over the root of its rows' mean square, in float64. Zhang and Sennrich (2019)."""
    x = x.double()
    return x * weight.double() / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """(rms_norm(total), total), total being x + residual as x's dtype holds it."""
    total = (x.float() + residual.float()).to(x.dtype)
    return rms_norm(total, weight, eps), total.double()
