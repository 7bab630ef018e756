"""Reference of swiglu."""

import torch


def swiglu(
    x: torch.Tensor,
    gate_weight: torch.Tensor,
    up_weight: torch.Tensor,
    gate_bias: torch.Tensor | None = None,
    up_bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """silu(x @ gate_weight^T + gate_bias) * (x @ up_weight^T + up_bias) in float64. Shazeer (arXiv:2002.05202, 2020).

    x (..., K); both weights (N, K), both biases (N,); out (..., N).
    """
    gate, up = x.double() @ gate_weight.double().T, x.double() @ up_weight.double().T
    if gate_bias is not None:
        gate = gate + gate_bias.double()
    if up_bias is not None:
        up = up + up_bias.double()
    return gate * torch.sigmoid(gate) * up
