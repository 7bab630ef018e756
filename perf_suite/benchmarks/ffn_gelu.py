"""ffn_gelu: a whole feed-forward network around a GELU, with biases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch

from .. import warpwatch_benchmark
from .linear_gelu import linear_gelu

if TYPE_CHECKING:
    from warpbench.draw import Draw

# The hidden values are rounded between the products, and carry the roundings of linear_gelu into the second.
_TOLERANCE = {"fp16": 3e-3, "bf16": 2.4e-2, "fp32": 1e-5}


def case(device: str, dtype: str, *, depth: int, outputs: int, rows: int = 1, tanh: bool = False) -> Case:
    """x (rows, depth) up to `outputs` and down to depth again; the gelu by erf, or by its approximation with tanh."""
    work = cost(rows=rows, hidden=outputs, depth=depth, element_bytes=ELEMENT_BYTES[dtype])
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


def cost(*, rows: int, hidden: int, depth: int, element_bytes: int) -> Cost:
    """Products (rows, depth) by (depth, hidden) and back; what lies between them need not move."""
    elements = 2 * rows * depth + 2 * hidden * depth
    return Cost(flops=4 * rows * hidden * depth, bytes=elements * element_bytes)


def ffn_gelu(
    x: torch.Tensor,
    up_weight: torch.Tensor,
    up_bias: torch.Tensor | None,
    down_weight: torch.Tensor,
    down_bias: torch.Tensor | None = None,
    approximate: str = "none",
) -> torch.Tensor:
    """gelu(x @ up_weight^T + up_bias) @ down_weight^T + down_bias in float64.

    x (..., K); up_weight (H, K); down_weight (N, H); out (..., N).
    """
    out = linear_gelu(x, up_weight, up_bias, approximate) @ down_weight.double().T
    return out if down_bias is None else out + down_bias.double()


class FfnGelu(warpwatch_benchmark.FormulaBenchmark):
    """out (rows, K) = gelu(x @ up_weight^T + up_bias) @ down_weight^T + down_bias.

    x (rows, K), up_weight (H, K), down_weight (K, H), up_bias (H,), down_bias (K,), all in the case's dtype.
    """

    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", depth=4096, outputs=11008, rows=512),
        case("cuda", "fp16", depth=4096, outputs=11008, rows=2048),
        case("cuda", "fp16", depth=4096, outputs=11008, rows=4096),
        case("cuda", "fp16", depth=768, outputs=3072, rows=1024, tanh=True),  # GPT-2 124M
        case("cpu", "fp32", depth=256, outputs=512, rows=32),
    )
    smallest = {"depth": 64, "outputs": 64}

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal x and biases, and weights such that the products have a variance of about one."""
        depth, hidden = case.depth, case.outputs
        return {
            "x": draw.activation(case.rows, depth),
            "up_weight": draw.weight(hidden, depth, scale=depth**-0.5),
            "up_bias": draw.weight(hidden),
            "down_weight": draw.weight(depth, hidden, scale=hidden**-0.5),
            "down_bias": draw.weight(depth),
            "approximate": "tanh" if case.tanh else "none",
        }

    def reference(self, **inputs: Any) -> torch.Tensor:
        """The formula in float64."""
        return ffn_gelu(**inputs)

    @staticmethod
    def formula(
        x: torch.Tensor,
        up_weight: torch.Tensor,
        up_bias: torch.Tensor,
        down_weight: torch.Tensor,
        down_bias: torch.Tensor,
        approximate: str,
    ) -> torch.Tensor:
        """Two products of cuBLAS with their biases, a gelu between, in plain PyTorch."""
        hidden = torch.nn.functional.gelu(torch.nn.functional.linear(x, up_weight, up_bias), approximate=approximate)
        return torch.nn.functional.linear(hidden, down_weight, down_bias)

    def call_of(self, function: Callable[..., Any], **inputs: Any) -> Callable[[], Any]:
        """What is timed."""
        return lambda: function(**inputs)
