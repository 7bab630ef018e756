"""References of layer normalisation."""

import torch


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, eps: float = 1e-5
) -> torch.Tensor:
    """x less its rows' mean, over their standard deviation, times weight, plus bias, in float64. Ba et al. (2016)."""
    x = x.double()
    away = x - x.mean(dim=-1, keepdim=True)
    out = away * weight.double() / (away.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    return out if bias is None else out + bias.double()


def add_layer_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(layer_norm(total), total), total being x + residual as x's dtype holds it."""
    total = (x.float() + residual.float()).to(x.dtype)
    return layer_norm(total, weight, bias, eps), total.double()
