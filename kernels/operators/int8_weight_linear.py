"""Linear layer with 8-bit weights and 16-bit activations (W8A16)."""

from __future__ import annotations

import torch

from ..extension import load_operator


def int8_weight_linear(
    x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """x times the dequantized weight, transposed, plus bias; x stays as exact as it is.

    x (..., K) in float16, in bfloat16 (GPUs from compute capability 8.0 on, and CPU) or in float32 (CPU), its last
    dimension contiguous; weight (N, K rounded up to a multiple of 16) int8 and weight_scales (N,) float32, as
    quantize_int8_weight makes them, and bias (N,) in x's dtype, all contiguous. The result is (..., N) in x's dtype.
    Summed in float32, scaled, shifted and rounded once; on a GPU only up to 64 rows, on Hopper up to 1024 where rows of
    x start on 16-byte boundaries. More of them go to cuBLAS with a weight that was dequantized to x's dtype, in memory
    that is given back, and where there is a bias, the product is rounded before it is added. Where x is float16, a
    weight beyond it (65504, from scales of 512 on) makes an infinity or a NaN there of what it is part of.
    Dimensions of x before the last are free, but where they do not collapse into rows of one stride, x is copied.
    Forward only: there is no gradient.
    Raises RuntimeError with a sentence for a shape, dtype, device or stride it does not take.
    """
    return _int8_weight_linear(x, weight, weight_scales, bias)


_int8_weight_linear = load_operator(
    "int8_weight_linear", result=lambda x, weight, **_: x.new_empty(*x.shape[:-1], weight.shape[0])
)
