"""int8_linear (W8A8): memory-bound until about a hundred rows, then bound by 8-bit products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warpbench import Case, Prepared, UnavailableError, baseline
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch

from .. import int8_weights, warpwatch_benchmark
from ..compiled.watched_kernels import Watched

if TYPE_CHECKING:
    from warpbench.draw import Draw

LEAST_MAGNITUDE = 2.0**-100
_FEWEST_ROWS = 32  # torch._int_mm needs more than 16 on a GPU
# x is exact in 8 bits. The cuBLAS baseline rounds the weight itself to fp16 (3e-4; bf16: eight times that) and may add
# its split-K parts in fp16.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}


def case(device: str, dtype: str, energy_of: Sequence[str] = (), *, depth: int, outputs: int, rows: int = 1) -> Case:
    """x (rows, depth), quantized in the call, by an INT8 weight (outputs, depth)."""
    work = cost(rows=rows, outputs=outputs, depth=depth, element_bytes=ELEMENT_BYTES[dtype])
    return Case(
        f"{device}-{dtype}-k{depth}-n{outputs}-m{rows}",
        device=device,
        dtype=dtype,
        tolerance=_TOLERANCE[dtype],
        bytes=work.bytes,
        flops=work.flops,
        arithmetic="int8" if device == "cuda" else None,
        energy_of=energy_of,
        rows=rows,
        outputs=outputs,
        depth=depth,
    )


def cost(*, rows: int, outputs: int, depth: int, element_bytes: int) -> Cost:
    """A (rows, depth) by (depth, outputs) product of bytes; x is read as it comes, each output has a fp32 scale."""
    weight = outputs * depth + outputs * ELEMENT_BYTES["fp32"]
    activations = (rows * depth + rows * outputs) * element_bytes
    return Cost(flops=2 * rows * outputs * depth, bytes=weight + activations)


def int8_linear(
    x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """quantised(x) @ dequantised(weight)^T + bias, in float64.

    x (..., K); weight (N, K padded with zeros) int8; weight_scales (N,); bias (N,); out (..., N).
    """
    values, scales = quantised(x)
    steps = values.double() @ weight[:, : x.shape[-1]].double().T
    out = steps * scales.double().unsqueeze(-1) * weight_scales.double()
    return out if bias is None else out + bias.double()


def quantised(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """values (..., K) int8 and scales (...) fp32: the rounding is part of what the operator means, hence fp32.

    Xiao et al., "SmoothQuant" (arXiv:2211.10438, 2022): per-token dynamic quantization.
    """
    wide = x.float()
    largest = wide.abs().amax(dim=-1).clamp(min=LEAST_MAGNITUDE)
    # Tensors on both sides: by a number PyTorch divides with its rounded reciprocal.
    most = torch.full_like(largest, 127)
    steps = (wide * (most / largest).unsqueeze(-1)).round()
    return steps.nan_to_num(0).clamp(-127, 127).to(torch.int8), largest / most


class Int8Linear(warpwatch_benchmark.FormulaBenchmark):
    """out (rows, N) = quantised(x) @ dequantised(weight)^T.

    x (rows, K); weight (N, K padded to a multiple of 16) int8; weight_scales (N,) fp32.
    """

    watched = Watched(
        kernels=("int8_linear_batch", "int8_linear_decode", "int8_linear_wgmma", "quantize_int8_rows"),
        twins=("_int8_linear", "_quantize_int8_rows"),
        sources=(
            "int8_linear/int8_linear_sm75.cu",
            "int8_linear/int8_linear_sm80.cu",
            "int8_linear/int8_linear_sm90a.cu",
            "quantize_int8/quantize_int8.cu",
        ),
    )
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", depth=4096, outputs=4096, rows=1),
        case("cuda", "fp16", depth=4096, outputs=4096, rows=16),
        case("cuda", "fp16", ("warpwatch", "cublas"), depth=4096, outputs=4096, rows=128),
        case("cuda", "fp16", depth=4096, outputs=4096, rows=2048),
        case("cuda", "bf16", depth=4096, outputs=4096, rows=128),
        case("cuda", "fp16", depth=4096, outputs=14336, rows=1),  # the MLP of Llama 3 8B
        case("cuda", "fp16", depth=4096, outputs=14336, rows=64),
        case("cuda", "fp16", depth=14336, outputs=4096, rows=64),
        case("cuda", "fp16", depth=4096, outputs=14336, rows=512),
        case("cpu", "fp32", depth=1024, outputs=1024, rows=1),
        case("cpu", "fp32", depth=1024, outputs=1024, rows=8),
    )
    smallest = {"depth": 128, "outputs": 128}

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """x that 8 bits hold exactly, uniform weights, and scales such that results have a variance near one.

        Each row of x is integers (no zeros), normal with one of them at 127 or -127, times a power of two. So
        quantizing loses nothing, the baselines that do not quantize have the same answer, and the gate is as narrow as
        rounding is. The kernels' own tests judge the quantization of any x.
        """
        one_a_row = case.rows, 1
        normal = draw.activation(case.rows, case.depth, dtype=torch.float32, scale=32)
        steps = normal.abs().ceil().clamp(1, 127).copysign(normal)
        largest = draw.integers(0, case.depth, one_a_row)
        sign = draw.integers(0, 2, one_a_row) * 2 - 1
        steps.scatter_(1, largest, 127.0 * sign)
        powers = 2.0 ** draw.integers(-7, -3, one_a_row)
        weight, weight_scales = int8_weights.drawn(draw, outputs=case.outputs, depth=case.depth)
        return {"x": (steps * powers).to(draw.dtype), "weight": weight, "weight_scales": weight_scales}

    def reference(self, x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor) -> torch.Tensor:
        """The product with the dequantised weight."""
        return int8_linear(x, weight, weight_scales)

    @baseline(binds=True, devices=["cuda"])
    def cublas(self, x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor) -> Callable[[], Any]:
        """The product with the weight dequantised ahead, all in x's dtype."""
        wide = int8_weights.dequantised(x, weight, weight_scales)
        return lambda: torch.nn.functional.linear(x, wide)

    @staticmethod
    def formula(x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor) -> torch.Tensor:
        """Quantize, torch._int_mm (cuBLASLt's product of 8-bit integers), scale: in plain PyTorch."""
        rows, depth = x.shape
        wide = x.float()
        scales = wide.abs().amax(dim=-1, keepdim=True).clamp(min=LEAST_MAGNITUDE) / 127
        values = (wide / scales).round().clamp(-127, 127).to(torch.int8)
        values = torch.nn.functional.pad(values, (0, weight.shape[1] - depth, 0, max(0, _FEWEST_ROWS - rows)))
        sums = torch._int_mm(values, weight.t())[:rows]
        return (sums * scales * weight_scales).to(x.dtype)

    @baseline(binds=True, devices=["cuda"])
    def torchao(self, x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor) -> Prepared:
        """A linear layer under torchao's config for 8-bit weights and activations, quantized row by row.

        Raises UnavailableError for 16 rows and fewer.
        """
        from torchao.quantization import Int8DynamicActivationInt8WeightConfig

        if x.shape[0] <= 16:
            raise UnavailableError("torch._int_mm, which torchao calls, takes more than 16 rows")
        return int8_weights.torchao_linear(x, weight, weight_scales, Int8DynamicActivationInt8WeightConfig())
