"""Gradients of an operator in one call, as a training step computes them."""

from __future__ import annotations  # torch.Tensor would import torch

from collections.abc import Callable, Sequence
from typing import Any

from warpbench.lazy import torch


def gradients(
    operator: Callable[..., Any], inputs: Sequence[torch.Tensor], d_out: Any = None
) -> tuple[torch.Tensor, ...]:
    """Run an operator forward and backward; the gradients of its inputs.

    `d_out` has the gradients of the outputs, and is None for a loss.
    """
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    return torch.autograd.grad(operator(*leaves), leaves, d_out)
