"""int8_weight_linear (W8A16): memory-bound until some tens of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case, Prepared, baseline
from warpbench.cost import ELEMENT_BYTES
from warpbench.lazy import torch

from .. import int8_weights, warpwatch_benchmark
from ..compiled.watched_kernels import Watched
from .int8_linear import cost

if TYPE_CHECKING:
    from warpbench.draw import Draw

# The cuBLAS baseline rounds the weight itself to fp16 (3e-4; bf16: eight times that) and may add its split-K parts in
# fp16.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}


def case(device: str, dtype: str, *, depth: int, outputs: int, rows: int = 1) -> Case:
    """x (rows, depth) by an INT8 weight (outputs, depth)."""
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


def int8_weight_linear(
    x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """x @ (weight * weight_scales)^T + bias in float64.

    x (..., K); weight (N, K padded) int8; weight_scales (N,); bias (N,); out (..., N).
    """
    out = x.double() @ weight[:, : x.shape[-1]].double().T * weight_scales.double()
    return out if bias is None else out + bias.double()


class Int8WeightLinear(warpwatch_benchmark.FormulaBenchmark):
    """out (rows, N) = x @ (weight * weight_scales)^T.

    x (rows, K); weight (N, K padded to a multiple of 16) int8; weight_scales (N,) fp32.
    """

    watched = Watched(
        kernels=(
            "int8_weight_dequantize",
            "int8_weight_linear_rows",
            "int8_weight_linear_tall",
            "int8_weight_linear_wgmma",
        ),
        twins=("_int8_weight_linear",),
        sources=(
            "int8_weight_linear/int8_weight_dequantize.cu",
            "int8_weight_linear/int8_weight_linear_sm75.cu",
            "int8_weight_linear/int8_weight_linear_sm80.cu",
            "int8_weight_linear/int8_weight_linear_sm90a.cu",
            "int8_weight_linear/int8_weight_linear_tall_sm90a.cu",
        ),
    )
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", depth=4096, outputs=4096, rows=1),
        case("cuda", "fp16", depth=4096, outputs=14336, rows=1),  # the MLP of Llama 3 8B
        case("cuda", "bf16", depth=4096, outputs=14336, rows=1),
        case("cuda", "fp16", depth=4096, outputs=14336, rows=16),
        case("cuda", "fp16", depth=4096, outputs=14336, rows=64),
        case("cuda", "fp16", depth=4096, outputs=14336, rows=512),
        case("cuda", "fp16", depth=14336, outputs=4096, rows=1),
        case("cuda", "fp16", depth=14336, outputs=4096, rows=16),
        case("cpu", "fp32", depth=1024, outputs=1024, rows=1),
        case("cpu", "fp32", depth=1024, outputs=1024, rows=8),
    )
    smallest = {"depth": 128, "outputs": 64}

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal x, uniform weights, and scales such that results have a variance near one."""
        weight, weight_scales = int8_weights.drawn(draw, outputs=case.outputs, depth=case.depth)
        return {"x": draw.activation(case.rows, case.depth), "weight": weight, "weight_scales": weight_scales}

    def reference(self, x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor) -> torch.Tensor:
        """The product with the dequantised weight."""
        return int8_weight_linear(x, weight, weight_scales)

    @baseline(binds=True, devices=["cuda"])
    def cublas(self, x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor) -> Callable[[], Any]:
        """The product with the weight dequantised ahead, in x's dtype: twice the bytes."""
        wide = int8_weights.dequantised(x, weight, weight_scales)
        return lambda: torch.nn.functional.linear(x, wide)

    @staticmethod
    def formula(x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor) -> torch.Tensor:
        """Dequantise in every call, then multiply, in plain PyTorch."""
        wide = weight[:, : x.shape[-1]] * weight_scales[:, None]
        return torch.nn.functional.linear(x, wide.to(x.dtype))

    @baseline(binds=True, devices=["cuda"])
    def torchao(self, x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor) -> Prepared:
        """A linear layer under torchao's config for 8-bit weights."""
        from torchao.quantization import Int8WeightOnlyConfig

        return int8_weights.torchao_linear(x, weight, weight_scales, Int8WeightOnlyConfig())
