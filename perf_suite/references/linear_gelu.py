"""Reference of a linear layer with a gelu behind it."""

import torch


def linear_gelu(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, approximate: str = "none"
) -> torch.Tensor:
    """gelu(x @ weight^T + bias) in float64. Hendrycks and Gimpel (arXiv:1606.08415, 2016).

    x (..., K); weight (N, K); bias (N,); out (..., N). By erfc, which does not cancel where its argument is negative,
    and the approximation as a sigmoid, (1 + tanh u) / 2 being 1 / (1 + e^-2u).
    """
    v = x.double() @ weight.double().T
    if bias is not None:
        v = v + bias.double()
    if approximate == "tanh":
        return v * torch.sigmoid(2 * (2 / torch.pi) ** 0.5 * (v + 0.044715 * v**3))
    return 0.5 * v * torch.special.erfc(-v * 0.5**0.5)
