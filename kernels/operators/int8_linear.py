"""Linear layer on int8 (W8A8), and the quantization of tokens and weights to int8."""

from __future__ import annotations

import torch

from ..extension import load_operator

ROW_BYTES = 16  # rows of int8 are zero-padded to a multiple of this
_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def int8_linear(
    x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """x, quantized per token, times the transpose of the int8 weight; summed exactly, scaled in float32.

    x (..., K) in float16, bfloat16 or float32, its last dimension contiguous; K from 1 to 131072. Each row of x is
    quantized as in quantize_int8_per_token, by a separate launch. weight (N, K rounded up to a multiple of 16) int8 and
    weight_scales (N,) float32, as quantize_int8_weight makes them, and bias (N,) in x's dtype, all contiguous. The
    result is (..., N) in x's dtype: sum * x_scale * weight_scale + bias, rounded once. Leading dimensions of x are
    free, but x is copied if they do not collapse into rows of one stride.
    One scale per token and per channel: Xiao et al., "SmoothQuant" (arXiv:2211.10438, 2022).
    Forward only: there is no gradient.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    return _int8_linear(x, weight, weight_scales, bias)


def quantize_int8_per_token(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize x (..., K) to (values, scales): symmetric, each row's largest magnitude at 127.

    values (..., K rounded up to a multiple of 16) int8, zeros past K; scales (...) float32. A row is its values times
    its scale, to within half a scale each; a row with a largest magnitude below 2^-100 becomes zeros. A NaN or an
    infinity becomes its row's scale. x in float16, bfloat16 or float32, the last dimension contiguous.
    Raises RuntimeError for an unsupported shape, dtype or stride.
    """
    values, scales = _quantize_int8_per_token(x)
    return values, scales


def quantize_int8_weight(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize weight (N, K) to int8 (values, scales): symmetric, one scale per output.

    values (N, K rounded up to a multiple of 16) int8, zeros past K; scales (N,) float32, each output's largest
    magnitude / 127. Each weight is rounded to the nearest multiple of its scale, so it changes by at most half a scale.
    Raises ValueError for another shape or dtype, and for a non-finite weight.
    """
    if weight.dim() != 2 or weight.shape[1] == 0 or weight.dtype not in _DTYPES:
        raise ValueError(
            "quantize_int8_weight: weight must be (N, K) in float16, bfloat16 or float32 with K at least 1, "
            f"got shape {list(weight.shape)} in {weight.dtype}"
        )
    if not bool(weight.isfinite().all()):
        raise ValueError("quantize_int8_weight: weight must be finite, got a NaN or an infinity")
    wide = weight.double()  # quotients of small float32 weights would leave float32's range
    # A subnormal scale would have lost precision.
    scales = (wide.abs().amax(dim=-1) / 127).float().clamp(min=torch.finfo(torch.float32).tiny)
    steps = (wide / scales.double().unsqueeze(-1)).round().clamp(-127, 127).to(torch.int8)
    return torch.nn.functional.pad(steps, (0, -weight.shape[1] % ROW_BYTES)), scales


def _values_and_scales(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    padded = (x.shape[-1] + ROW_BYTES - 1) // ROW_BYTES * ROW_BYTES
    values = x.new_empty((*x.shape[:-1], padded), dtype=torch.int8)
    return values, x.new_empty(x.shape[:-1], dtype=torch.float32)


_int8_linear = load_operator("int8_linear", result=lambda x, weight, **_: x.new_empty(*x.shape[:-1], weight.shape[0]))
_quantize_int8_per_token = load_operator("quantize_int8_per_token", result=_values_and_scales)
