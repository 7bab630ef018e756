"""Reference of the linear layer with 8-bit weights."""

import torch


def int8_weight_linear(
    x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """x @ (weight * weight_scales)^T + bias in float64.

    x (..., K); weight (N, K padded) int8; weight_scales (N,); bias (N,); out (..., N).
    """
    out = x.double() @ weight[:, : x.shape[-1]].double().T * weight_scales.double()
    return out if bias is None else out + bias.double()
