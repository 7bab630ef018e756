"""Implementations of ffn_gelu."""

from collections.abc import Callable

import torch
from torch.nn import functional

from warpbench.prepared import Prepared
from warpbench.torch_compile import compiled

from ..inputs.ffn_gelu import FfnGeluInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: FfnGeluInputs) -> Prepared:
    """The operators of the commit: linear_gelu, and PyTorch's product."""
    return _prepared(_with_keyword(warpwatch_operator("ffn_gelu")), inputs)


def triton(inputs: FfnGeluInputs) -> Prepared:
    """Its Triton twin: two launches of one kernel."""
    return _prepared(_with_keyword(triton_operator("ffn_gelu")), inputs)


def eager(inputs: FfnGeluInputs) -> Prepared:
    """Two products of cuBLAS with their biases, a gelu between, in plain PyTorch."""
    return _prepared(_formula, inputs)


def torch_compile(inputs: FfnGeluInputs) -> Prepared:
    """The same formula through torch.compile."""
    return _prepared(compiled(_formula, inputs.x, inputs.up_weight), inputs)


def _prepared(ffn: Callable[..., torch.Tensor], inputs: FfnGeluInputs) -> Prepared:
    i = inputs
    return Prepared(run=lambda: ffn(i.x, i.up_weight, i.up_bias, i.down_weight, i.down_bias, i.approximate))


def _with_keyword(ffn: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda *tensors_and_approximate: ffn(*tensors_and_approximate[:-1], approximate=tensors_and_approximate[-1])


def _formula(
    x: torch.Tensor,
    up_weight: torch.Tensor,
    up_bias: torch.Tensor,
    down_weight: torch.Tensor,
    down_bias: torch.Tensor,
    approximate: str,
) -> torch.Tensor:
    hidden = functional.gelu(functional.linear(x, up_weight, up_bias), approximate=approximate)
    return functional.linear(hidden, down_weight, down_bias)
