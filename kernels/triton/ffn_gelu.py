"""ffn_gelu in Triton: linear_activation's kernel twice, the second time without an activation."""

from __future__ import annotations

import torch

from .linear_activation import linear, linear_gelu


def ffn_gelu(
    x: torch.Tensor,
    up_weight: torch.Tensor,
    up_bias: torch.Tensor | None,
    down_weight: torch.Tensor,
    down_bias: torch.Tensor | None = None,
    *,
    approximate: str = "none",
) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.ffn_gelu, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    return linear(linear_gelu(x, up_weight, up_bias, approximate=approximate), down_weight, down_bias)
