"""layer_norm: memory-bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case, Prepared, UnavailableError, baseline
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch

from ..compiled.watched_kernels import Watched
from ..warpwatch_operators import library
from . import rms_norm

if TYPE_CHECKING:
    from warpbench.draw import Draw
    from warpbench.output import Output


def cost(*, rows: int, cols: int, residual: bool, element_bytes: int) -> Cost:
    """Seven FLOPs an element: mean, distance, square, sum, scale, weight, bias; bytes as for rms_norm, and the bias."""
    elements = rows * cols
    moved = (4 if residual else 2) * elements + 2 * cols
    return Cost(flops=(8 if residual else 7) * elements, bytes=moved * element_bytes)


def case(device: str, dtype: str, *, rows: int, cols: int = 4096, residual: bool = False) -> Case:
    """Layer normalisation of rows; with a residual, of its sum with them, which is a second output."""
    work = cost(rows=rows, cols=cols, residual=residual, element_bytes=ELEMENT_BYTES[dtype])
    return Case(
        f"{device}-{dtype}-r{rows}-c{cols}{'-residual' if residual else ''}",
        device=device,
        dtype=dtype,
        tolerance=rms_norm.TOLERANCE[dtype],
        bytes=work.bytes,
        flops=work.flops,
        rows=rows,
        cols=cols,
        residual=residual,
    )


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, eps: float = 1e-5
) -> torch.Tensor:
    """x less its rows' mean, over their standard deviation, times weight, plus bias, in float64. Ba et al. (2016)."""
    x = x.double()
    away = x - x.mean(dim=-1, keepdim=True)
    out = away * weight.double() / (away.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    return out if bias is None else out + bias.double()


def add_layer_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(layer_norm(total), total), total being x + residual as x's dtype holds it."""
    total = (x.float() + residual.float()).to(x.dtype)
    return layer_norm(total, weight, bias, eps), total.double()


class LayerNorm(rms_norm.RowNorm):
    """Normalised rows and, where there is a residual, its sum with x.

    x, residual, out (rows, cols); weight, bias (cols); all of one dtype.
    """

    watched = Watched(
        kernels=(
            "layer_norm_any",
            "layer_norm_in_registers",
        ),
        twins=("_layer_norm",),
        sources=("layer_norm/layer_norm.cu",),
    )
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", rows=16384),  # 268 MB
        case("cuda", "fp16", rows=32768),
        case("cuda", "fp16", rows=16384, residual=True),
        case("cuda", "bf16", rows=16384, residual=True),
        case("cuda", "fp32", rows=16384),
        case("cuda", "fp16", rows=98304, cols=768, residual=True),  # GPT-2 124M
        case("cuda", "fp16", rows=1024, cols=768, residual=True),
        case("cuda", "fp16", rows=64, cols=768, residual=True),  # a decode step of 64 sequences
        case("cuda", "fp16", rows=1, cols=768, residual=True),
        case("cpu", "fp32", rows=256, cols=768),
        case("cpu", "fp32", rows=256, cols=768, residual=True),
    )

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal rows, weights between 0.5 and 1.5, normal biases."""
        return {
            "x": draw.activation(case.rows, case.cols),
            "residual": draw.activation(case.rows, case.cols) if case.residual else None,
            "weight": draw.constant(draw.uniform(case.cols, low=0.5, high=1.5)),
            "bias": draw.weight(case.cols),
        }

    def reference(
        self, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, bias: torch.Tensor
    ) -> Output:
        """layer_norm or add_layer_norm, in float64."""
        return layer_norm(x, weight, bias) if residual is None else add_layer_norm(x, residual, weight, bias)

    @staticmethod
    def formula(
        x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, bias: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """PyTorch's own layer_norm, after an addition where there is a residual."""
        total = x if residual is None else x + residual
        return torch.nn.functional.layer_norm(total, weight.shape, weight, bias, 1e-5), total

    @baseline(binds=True, devices=["cuda"])
    def liger(
        self, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, bias: torch.Tensor
    ) -> Prepared:
        """Liger-Kernel's Triton kernel. Raises UnavailableError for a residual, which Liger-Kernel does not add."""
        from liger_kernel.ops.layer_norm import LigerLayerNormFunction

        if residual is not None:
            raise UnavailableError("Liger-Kernel's layer norm adds no residual")
        norm = LigerLayerNormFunction.apply
        return Prepared(run=lambda: norm(x, weight, bias, 1e-5), backend=library("liger-kernel"))
