"""Linear layers with and without an activation: linear, linear_gelu, linear_silu, swiglu, ffn_gelu."""

from __future__ import annotations

import torch

from ..extension import load_operator

_NONE, _GELU, _GELU_TANH, _SILU = range(4)  # Activation of csrc/linear_activation/linear_activation.h
_GELUS = {"none": _GELU, "tanh": _GELU_TANH}


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """x @ weight^T + bias, as torch.nn.functional.linear.

    Few 16-bit rows with enough outputs run in one launch of our own, everything else is PyTorch's product
    (csrc/linear_activation/linear_activation_tiles.h has the rules). Otherwise as linear_gelu.
    """
    return _linear_activation(x, weight, bias, _NONE)


def linear_gelu(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *, approximate: str = "none"
) -> torch.Tensor:
    """gelu(x @ weight^T + bias): by erf, or by tanh with approximate="tanh", as torch.nn.functional.gelu.

    x (..., K) in float16, bfloat16 or float32, weight (N, K) and bias (N,) in x's dtype; the last dimensions
    contiguous. The result is (..., N) in x's dtype. On a GPU this is one launch where that is faster, and then rounded
    once; otherwise (tiles that leave the GPU idle, float32, rows not on 16-byte boundaries, and on the CPU) PyTorch's
    product, rounded, and an epilogue launch (csrc/linear_activation/linear_activation_tiles.h has the rules).
    Hendrycks and Gimpel, "Gaussian error linear units" (arXiv:1606.08415, 2016).
    Forward only: there is no gradient.
    Raises RuntimeError for an unsupported shape, dtype, device or stride, ValueError for another approximation.
    """
    return _linear_activation(x, weight, bias, _gelu("linear_gelu", approximate))


def linear_silu(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """silu(x @ weight^T + bias), with silu(v) = v / (1 + e^-v); otherwise as linear_gelu."""
    return _linear_activation(x, weight, bias, _SILU)


def swiglu(
    x: torch.Tensor,
    gate_weight: torch.Tensor,
    up_weight: torch.Tensor,
    gate_bias: torch.Tensor | None = None,
    up_bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """silu(x @ gate_weight^T + gate_bias) * (x @ up_weight^T + up_bias).

    x (..., K) in float16, bfloat16 or float32, both weights (N, K) and both biases (N,) in x's dtype; the last
    dimensions contiguous. The result is (..., N) in x's dtype. One launch on Hopper for one or two rows, and for more
    rows if their tiles fill the GPU; else three launches: two cuBLAS products, rounded to x's dtype, and the rest in
    float32.
    Shazeer, "GLU variants improve Transformer" (arXiv:2002.05202, 2020).
    Forward only: there is no gradient.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    return _swiglu(x, gate_weight, up_weight, gate_bias, up_bias)


def ffn_gelu(
    x: torch.Tensor,
    up_weight: torch.Tensor,
    up_bias: torch.Tensor | None,
    down_weight: torch.Tensor,
    down_bias: torch.Tensor | None = None,
    *,
    approximate: str = "none",
) -> torch.Tensor:
    """gelu(x @ up_weight^T + up_bias) @ down_weight^T + down_bias: linear_gelu, then a linear layer.

    x (..., K), up_weight (H, K), down_weight (N, H); the result is (..., N). The layers run one after the other, since
    every output needs all H values between them, which are rounded to x's dtype; if the second does not run in one
    launch of ours, it is PyTorch's. Dtypes and errors as in linear_gelu.
    """
    return _ffn_gelu(x, up_weight, up_bias, down_weight, down_bias, _gelu("ffn_gelu", approximate))


def _gelu(operator: str, approximate: str) -> int:
    if approximate not in _GELUS:
        raise ValueError(f"{operator}: approximate must be 'none' or 'tanh', got {approximate!r}")
    return _GELUS[approximate]


_linear_activation = load_operator(
    "linear_activation", result=lambda x, weight, **_: x.new_empty(*x.shape[:-1], weight.shape[0])
)
_ffn_gelu = load_operator(
    "ffn_gelu", result=lambda x, down_weight, **_: x.new_empty(*x.shape[:-1], down_weight.shape[0])
)
_swiglu = load_operator("swiglu", result=lambda x, gate_weight, **_: x.new_empty(*x.shape[:-1], gate_weight.shape[0]))
