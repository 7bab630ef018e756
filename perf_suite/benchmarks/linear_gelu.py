"""linear_gelu: the first half of a transformer's MLP, with its bias."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch

from .. import warpwatch_benchmark
from ..compiled.watched_kernels import Watched

if TYPE_CHECKING:
    from warpbench.draw import Draw

# The product is rounded once more where two launches make it; rounding to fp16 costs about 2.8e-4 (bf16: eight times
# that), and cuBLAS may add its split-K parts in fp16.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}


def case(device: str, dtype: str, *, depth: int, outputs: int, rows: int = 1, tanh: bool = False) -> Case:
    """gelu of x (rows, depth) by a weight (outputs, depth) and a bias; by erf, or by its approximation with tanh."""
    work = cost(rows=rows, outputs=outputs, depth=depth, element_bytes=ELEMENT_BYTES[dtype])
    return Case(
        f"{device}-{dtype}-k{depth}-n{outputs}-m{rows}{'-tanh' if tanh else ''}",
        device=device,
        dtype=dtype,
        tolerance=_TOLERANCE[dtype],
        bytes=work.bytes,
        flops=work.flops,
        rows=rows,
        outputs=outputs,
        depth=depth,
        tanh=tanh,
    )


def cost(*, rows: int, outputs: int, depth: int, element_bytes: int) -> Cost:
    """A (rows, depth) by (depth, outputs) product, every matrix in the same dtype; bias and activation left out."""
    elements = rows * depth + outputs * depth + rows * outputs
    return Cost(flops=2 * rows * outputs * depth, bytes=elements * element_bytes)


def linear_gelu(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, approximate: str = "none"
) -> torch.Tensor:
    """gelu(x @ weight^T + bias) in float64. Hendrycks and Gimpel (arXiv:1606.08415, 2016).

    x (..., K); weight (N, K); bias (N,); out (..., N). By erfc, which does not cancel where its argument is negative,
    and the approximation as a sigmoid, (1 + tanh u) / 2 being 1 / (1 + e^-2u).
    """
    v = x.double() @ weight.double().T
    if bias is not None:
        v = v + bias.double()
    if approximate == "tanh":
        return v * torch.sigmoid(2 * (2 / torch.pi) ** 0.5 * (v + 0.044715 * v**3))
    return 0.5 * v * torch.special.erfc(-v * 0.5**0.5)


class LinearGelu(warpwatch_benchmark.FormulaBenchmark):
    """out (rows, N) = gelu(x @ weight^T + bias); x (rows, K), weight (N, K), bias (N,), all in the case's dtype."""

    watched = Watched(
        kernels=(
            "bias_activation_rows",
            "linear_activation_few_rows",
            "linear_activation_fused",
            "linear_activation_gemv",
            "linear_activation_wgmma",
        ),
        twins=("_linear_activation",),
        sources=(
            "linear_activation/linear_activation_few_rows_sm90a.cu",
            "linear_activation/linear_activation_gemv_sm90a.cu",
            "linear_activation/linear_activation_sm75.cu",
            "linear_activation/linear_activation_sm80.cu",
            "linear_activation/linear_activation_sm90a.cu",
        ),
    )
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", depth=4096, outputs=16384, rows=1),
        case("cuda", "fp16", depth=4096, outputs=16384, rows=128),
        case("cuda", "fp16", depth=4096, outputs=16384, rows=128, tanh=True),
        case("cuda", "bf16", depth=4096, outputs=16384, rows=128),
        case("cuda", "fp16", depth=4096, outputs=16384, rows=2048),
        case("cuda", "fp16", depth=768, outputs=3072, rows=1024, tanh=True),  # GPT-2 124M
        case("cpu", "fp32", depth=512, outputs=1024, rows=1),
        case("cpu", "fp32", depth=512, outputs=1024, rows=32, tanh=True),
    )
    smallest = {"depth": 128, "outputs": 64}

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal x and bias, and a weight such that the products have a variance of one."""
        return {
            "x": draw.activation(case.rows, case.depth),
            "weight": draw.weight(case.outputs, case.depth, scale=case.depth**-0.5),
            "bias": draw.weight(case.outputs),
            "approximate": "tanh" if case.tanh else "none",
        }

    def reference(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, approximate: str) -> torch.Tensor:
        """The formula in float64."""
        return linear_gelu(x, weight, bias, approximate)

    @staticmethod
    def formula(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, approximate: str) -> torch.Tensor:
        """cuBLAS's product with its bias, then a gelu, in plain PyTorch."""
        return torch.nn.functional.gelu(torch.nn.functional.linear(x, weight, bias), approximate=approximate)

    def call_of(
        self, function: Callable[..., Any], x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, approximate: str
    ) -> Callable[[], Any]:
        """What is timed."""
        return lambda: function(x, weight, bias, approximate=approximate)
