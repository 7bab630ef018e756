"""Linear layer with 8-bit weights and 16-bit activations (W8A16)."""

from __future__ import annotations

import torch

from ..extension import load_operator


def int8_weight_linear(
    x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """x times the transpose of the dequantized weight, plus bias; x is not quantized.

    x (..., K) in float16, in bfloat16 (GPUs from compute capability 8.0 on, and CPU) or in float32 (CPU), its last
    dimension contiguous; weight (N, K rounded up to a multiple of 16) int8 and weight_scales (N,) float32, as
    quantize_int8_weight makes them, and bias (N,) in x's dtype, all contiguous. The result is (..., N) in x's dtype.
    Summed in float32, scaled, biased and rounded once; on a GPU only up to 64 rows, on Hopper up to 1024 if rows of x
    start on 16-byte boundaries. More rows go to cuBLAS with a temporary weight dequantized to x's dtype, and with a
    bias, the product is rounded before the bias is added. If x is float16, a weight beyond its range (65504; possible
    with scales from 512 on) makes the outputs that use it infinite or NaN there.
    Leading dimensions of x are free, but x is copied if they do not collapse into rows of one stride.
    Forward only: there is no gradient.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    return _int8_weight_linear(x, weight, weight_scales, bias)


_int8_weight_linear = load_operator(
    "int8_weight_linear", result=lambda x, weight, **_: x.new_empty(*x.shape[:-1], weight.shape[0])
)
