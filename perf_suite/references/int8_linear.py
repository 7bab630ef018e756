"""Reference of the linear layer on 8-bit integers, and of quantizing tokens."""

import torch

LEAST_MAGNITUDE = 2.0**-100


def int8_linear(
    x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """quantised(x) @ dequantised(weight)^T + bias, in float64.

    x (..., K); weight (N, K padded with zeros) int8; weight_scales (N,); bias (N,); out (..., N).
    """
    values, scales = quantised(x)
    steps = values.double() @ weight[:, : x.shape[-1]].double().T
    out = steps * scales.double().unsqueeze(-1) * weight_scales.double()
    return out if bias is None else out + bias.double()


def quantised(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """values (..., K) int8 and scales (...) fp32: the rounding is part of what the operator means, hence fp32.

    Xiao et al., "SmoothQuant" (arXiv:2211.10438, 2022): per-token dynamic quantization.
    """
    wide = x.float()
    largest = wide.abs().amax(dim=-1).clamp(min=LEAST_MAGNITUDE)
    # Tensors on both sides: by a number PyTorch divides with its rounded reciprocal.
    most = torch.full_like(largest, 127)
    steps = (wide * (most / largest).unsqueeze(-1)).round()
    return steps.nan_to_num(0).clamp(-127, 127).to(torch.int8), largest / most
