"""Reference of a feed-forward network around a gelu."""

import torch

from .linear_gelu import linear_gelu


def ffn_gelu(
    x: torch.Tensor,
    up_weight: torch.Tensor,
    up_bias: torch.Tensor | None,
    down_weight: torch.Tensor,
    down_bias: torch.Tensor | None = None,
    approximate: str = "none",
) -> torch.Tensor:
    """gelu(x @ up_weight^T + up_bias) @ down_weight^T + down_bias in float64.

    x (..., K); up_weight (H, K); down_weight (N, H); out (..., N).
    """
    out = linear_gelu(x, up_weight, up_bias, approximate) @ down_weight.double().T
    return out if down_bias is None else out + down_bias.double()
