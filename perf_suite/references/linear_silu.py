"""Reference of a linear layer with a SiLU behind it."""

import torch


def linear_silu(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """silu(x @ weight^T + bias) in float64, silu(v) being v / (1 + e^-v).

    x (..., K); weight (N, K); bias (N,); out (..., N). Elfwing, Uchibe and Doya (arXiv:1702.03118, 2017).
    """
    v = x.double() @ weight.double().T
    if bias is not None:
        v = v + bias.double()
    return v * torch.sigmoid(v)
