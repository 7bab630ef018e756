"""Linear layers with an activation, and the feed-forward networks of transformers, as modules.

Their weights are named like nn.Linear's in Llama and similar models: checkpoints fit, and replace_linear_with_quantized
finds the layers of SwiGLU and FusedFFN. A replaced layer is called on its own, and PyTorch applies the activation.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from ..operators.linear_activation import ffn_gelu, linear, linear_gelu, linear_silu, swiglu
from .gradient import refuse_gradient

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_INSTEAD = "train with nn.Linear and the activation of torch.nn.functional"


class Linear(nn.Linear):
    """nn.Linear with our operator, faster for up to 64 rows on Hopper.

    Falls back to PyTorch if a gradient is required, under autocast, and for unsupported tensors.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if self._is_operators(input):
            return linear(input, self.weight, self.bias)
        return super().forward(input)

    def _is_operators(self, input: torch.Tensor) -> bool:
        given = [tensor for tensor in (input, self.weight, self.bias) if tensor is not None]
        return (
            not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given))
            and not torch.is_autocast_enabled(input.device.type)
            and type(self.weight) is nn.Parameter  # a quantizer may have put a Tensor subclass there
            and input.dtype in _DTYPES
            and all(tensor.dtype == input.dtype and tensor.stride(-1) == 1 for tensor in given)
        )


def holds_its_weight(layer: nn.Module) -> bool:
    """Whether the layer's weight and bias are plain parameters that an operator may read, not quantized ones."""
    return type(layer) in (nn.Linear, Linear)


class LinearGELU(nn.Linear):
    """gelu(x weight^T + bias); approximate "none" (erf) or "tanh". For inference: backward raises RuntimeError."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        approximate: str = "none",
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, dtype=dtype, device=device)
        self.approximate = approximate

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        out = linear_gelu(input, self.weight, self.bias, approximate=self.approximate)
        return refuse_gradient(out, "LinearGELU", _INSTEAD)


class LinearSiLU(nn.Linear):
    """silu(x weight^T + bias). For inference: backward raises RuntimeError."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return refuse_gradient(linear_silu(input, self.weight, self.bias), "LinearSiLU", _INSTEAD)


class SwiGLU(nn.Module):
    """silu(gate_proj(x)) * up_proj(x). For inference: backward raises RuntimeError."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = False,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(in_features, out_features, bias, dtype=dtype, device=device)
        self.up_proj = nn.Linear(in_features, out_features, bias, dtype=dtype, device=device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., out_features) of x's dtype."""
        gate, up = self.gate_proj, self.up_proj
        if holds_its_weight(gate) and holds_its_weight(up):
            return refuse_gradient(swiglu(x, gate.weight, up.weight, gate.bias, up.bias), "SwiGLU", _INSTEAD)
        return functional.silu(gate(x)) * up(x)


class FusedFFN(nn.Module):
    """down_proj(gelu(up_proj(x))), approximate as in LinearGELU. For inference: backward raises RuntimeError."""

    def __init__(
        self,
        embed_dim: int,
        ffn_dim: int,
        bias: bool = True,
        *,
        approximate: str = "none",
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.approximate = approximate
        self.up_proj = nn.Linear(embed_dim, ffn_dim, bias, dtype=dtype, device=device)
        self.down_proj = nn.Linear(ffn_dim, embed_dim, bias, dtype=dtype, device=device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., embed_dim) of x's dtype."""
        up, down = self.up_proj, self.down_proj
        if holds_its_weight(up) and holds_its_weight(down):
            out = ffn_gelu(x, up.weight, up.bias, down.weight, down.bias, approximate=self.approximate)
            return refuse_gradient(out, "FusedFFN", _INSTEAD)
        return down(functional.gelu(up(x), approximate=self.approximate))
