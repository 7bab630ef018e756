"""swiglu: the first half of Llama's MLP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch

from .. import warpwatch_benchmark
from ..compiled.watched_kernels import Watched

if TYPE_CHECKING:
    from warpbench.draw import Draw

# Both products are rounded before they meet where they are PyTorch's; rounding to fp16 costs about 2.8e-4 (bf16: eight
# times that), and cuBLAS may add its split-K parts in fp16.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}


def case(device: str, dtype: str, *, depth: int, outputs: int, rows: int = 1) -> Case:
    """x (rows, depth) by two weights (outputs, depth), the first through silu."""
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


def cost(*, rows: int, outputs: int, depth: int, element_bytes: int) -> Cost:
    """Two (rows, depth) by (depth, outputs) products; x read, two weights read, one result written."""
    elements = rows * depth + 2 * outputs * depth + rows * outputs
    return Cost(flops=4 * rows * outputs * depth, bytes=elements * element_bytes)


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


class Swiglu(warpwatch_benchmark.FormulaBenchmark):
    """out (rows, N) = silu(x @ gate_weight^T) * (x @ up_weight^T).

    x (rows, K), gate_weight and up_weight (N, K), in the case's dtype; no bias, as in Llama.
    """

    watched = Watched(kernels=("silu_mul_rows",), twins=("_swiglu",), sources=("linear_activation/activation_rows.cu",))
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", depth=4096, outputs=11008, rows=1),  # Llama 2 7B
        case("cuda", "fp16", depth=4096, outputs=14336, rows=16),  # Llama 3 8B, sixteen sequences
        case("cuda", "fp16", depth=4096, outputs=11008, rows=128),
        case("cuda", "bf16", depth=4096, outputs=11008, rows=128),
        case("cuda", "fp16", depth=4096, outputs=11008, rows=2048),
        case("cuda", "fp16", depth=4096, outputs=14336, rows=512),  # Llama 3 8B
        case("cpu", "fp32", depth=512, outputs=1024, rows=1),
        case("cpu", "fp32", depth=512, outputs=1024, rows=32),
    )
    smallest = {"depth": 64, "outputs": 64}

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal x, and weights such that the products have a variance of one."""
        return {
            "x": draw.activation(case.rows, case.depth),
            "gate_weight": draw.weight(case.outputs, case.depth, scale=case.depth**-0.5),
            "up_weight": draw.weight(case.outputs, case.depth, scale=case.depth**-0.5),
        }

    def reference(self, x: torch.Tensor, gate_weight: torch.Tensor, up_weight: torch.Tensor) -> torch.Tensor:
        """The formula in float64."""
        return swiglu(x, gate_weight, up_weight)

    @staticmethod
    def formula(x: torch.Tensor, gate_weight: torch.Tensor, up_weight: torch.Tensor) -> torch.Tensor:
        """Two products of cuBLAS, silu and a product of elements, in plain PyTorch."""
        gate = torch.nn.functional.linear(x, gate_weight)
        return torch.nn.functional.silu(gate) * torch.nn.functional.linear(x, up_weight)
