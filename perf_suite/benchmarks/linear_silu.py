"""linear_silu: a linear layer with a SiLU behind it."""

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
    """silu of x (rows, depth) by a weight (outputs, depth)."""
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


def linear_silu(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """silu(x @ weight^T + bias) in float64, silu(v) being v / (1 + e^-v).

    x (..., K); weight (N, K); bias (N,); out (..., N). Elfwing, Uchibe and Doya (arXiv:1702.03118, 2017).
    """
    v = x.double() @ weight.double().T
    if bias is not None:
        v = v + bias.double()
    return v * torch.sigmoid(v)


class LinearSilu(warpwatch_benchmark.FormulaBenchmark):
    """out (rows, N) = silu(x @ weight^T); x (rows, K), weight (N, K), both in the case's dtype."""

    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", depth=4096, outputs=11008, rows=1),  # Llama 2 7B's gate
        case("cuda", "fp16", depth=4096, outputs=11008, rows=128),
        case("cuda", "fp16", depth=4096, outputs=11008, rows=2048),
        case("cpu", "fp32", depth=512, outputs=1024, rows=32),
    )
    smallest = {"depth": 64, "outputs": 64}

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal x, and a weight such that the products have a variance of one."""
        return {
            "x": draw.activation(case.rows, case.depth),
            "weight": draw.weight(case.outputs, case.depth, scale=case.depth**-0.5),
        }

    def reference(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """The formula in float64."""
        return linear_silu(x, weight)

    @staticmethod
    def formula(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """cuBLAS's product, then a SiLU, in plain PyTorch."""
        return torch.nn.functional.silu(torch.nn.functional.linear(x, weight))
