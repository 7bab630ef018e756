"""linear: a linear layer of a decode step, without an activation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case
from warpbench.cost import ELEMENT_BYTES
from warpbench.lazy import torch

from .. import warpwatch_benchmark
from .linear_gelu import cost

if TYPE_CHECKING:
    from warpbench.draw import Draw

# As linear_gelu's: the kernels are the same but for the activation.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}


def case(device: str, dtype: str, *, depth: int, outputs: int, rows: int = 1) -> Case:
    """x (rows, depth) by a weight (outputs, depth), and a bias."""
    work = cost(rows=rows, outputs=outputs, depth=depth, element_bytes=ELEMENT_BYTES[dtype])
    return Case(
        f"{device}-{dtype}-k{depth}-n{outputs}-m{rows}",
        device=device,
        dtype=dtype,
        tolerance=_TOLERANCE[dtype],
        bytes=work.bytes,
        flops=work.flops,
        rows=rows,
        outputs=outputs,
        depth=depth,
    )


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """x @ weight^T + bias in float64. x (..., K); weight (N, K); bias (N,); out (..., N)."""
    out = x.double() @ weight.double().T
    return out if bias is None else out + bias.double()


class Linear(warpwatch_benchmark.FormulaBenchmark):
    """out (rows, N) = x @ weight^T + bias; x (rows, K), weight (N, K), bias (N,), all in the case's dtype."""

    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", depth=4096, outputs=4096, rows=1),  # Llama 3 8B's queries, or a layer's output
        case("cuda", "bf16", depth=4096, outputs=4096, rows=1),
        case("cuda", "fp16", depth=4096, outputs=4096, rows=2),
        case("cuda", "fp16", depth=4096, outputs=1024, rows=1),  # its keys
        case("cuda", "fp16", depth=14336, outputs=4096, rows=1),  # the MLP's output
        case("cuda", "fp16", depth=4096, outputs=14336, rows=16),  # its up projection, of sixteen sequences
        case("cuda", "fp16", depth=768, outputs=2304, rows=1),  # GPT-2 124M's queries, keys and values
        case("cuda", "fp16", depth=768, outputs=50257, rows=1),  # its head
        case("cpu", "fp32", depth=512, outputs=1024, rows=1),
    )
    smallest = {"depth": 64, "outputs": 64}

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal x and bias, and a weight such that the products have a variance of one."""
        return {
            "x": draw.activation(case.rows, case.depth),
            "weight": draw.weight(case.outputs, case.depth, scale=case.depth**-0.5),
            "bias": draw.weight(case.outputs),
        }

    def reference(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """The formula in float64."""
        return linear(x, weight, bias)

    @staticmethod
    def formula(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """cuBLAS's product with its bias, in plain PyTorch."""
        return torch.nn.functional.linear(x, weight, bias)
