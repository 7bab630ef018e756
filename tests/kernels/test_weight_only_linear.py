"""QuantizedLinear of 8 bits whose activations stay as they are (W8A16)."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from perf_suite.benchmarks.int8_weight_linear import int8_weight_linear as reference
from warpwatch.kernels.modules import QuantizedLinear, replace_linear_with_quantized


def dtype_on(device: str) -> torch.dtype:
    return torch.float16 if device == "cuda" else torch.float32


def layer(device: str, *, bias: bool, in_features: int = 256) -> QuantizedLinear:
    dtype = dtype_on(device)
    made = QuantizedLinear(in_features, 48, bias, bits=8, weight_only=True, dtype=dtype, device=device)
    weight = torch.randn(48, in_features, dtype=dtype, device=device) / 16
    return made.quantize_from_float(weight, torch.randn(48, dtype=dtype, device=device) if bias else None)


@pytest.mark.parametrize("rows", [1, 65], ids=["its own kernel", "cuBLAS"])
@pytest.mark.parametrize("in_features", [256, 77])
@pytest.mark.parametrize("bias", [False, True])
def test_multiplies_with_what_it_holds(bias: bool, in_features: int, rows: int, device: str) -> None:
    made = layer(device, bias=bias, in_features=in_features)
    x = torch.randn(rows, in_features, dtype=dtype_on(device), device=device)
    expected = reference(x, made.quantized_weight, made.weight_scales, made.bias)
    error = (made(x).double() - expected).norm() / expected.norm()
    # Rounded once; behind cuBLAS the weight and the product are rounded too.
    assert error < (2e-3 if device == "cuda" else 1e-5)


def test_is_nearer_to_the_float_layer_than_quantized_activations_are(device: str) -> None:
    linear = nn.Linear(256, 48, dtype=dtype_on(device), device=device)
    x = torch.randn(5, 256, dtype=dtype_on(device), device=device)
    with torch.no_grad():
        expected = linear(x)
        off = [
            (replace_linear_with_quantized(linear, bits=8, weight_only=weight_only)(x) - expected).norm()
            for weight_only in (True, False)
        ]
    assert off[0] < 0.9 * off[1]


def test_a_file_serves_either_way(device: str) -> None:
    made = layer(device, bias=True)
    other = QuantizedLinear(256, 48, True, bits=8, dtype=dtype_on(device), device=device)
    other.load_state_dict(made.state_dict())
    assert torch.equal(other.dequantize(), made.dequantize())
    assert "weight_only=True" in repr(made)
