"""reduce_sum: memory-bound."""

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

_DIM = 1  # of (outer, reduced, inner)
# Rounding a sum to fp16 costs about 2.8e-4 (bf16: eight times that). A sum of n normal numbers is about sqrt(n), and
# its partial sums are no larger: in fp32 each addition of the longest chain, of hundreds, loses about 1e-7.
_TOLERANCE = {"fp16": 1e-3, "bf16": 8e-3, "fp32": 2e-5}


def cost(*, outer: int, reduced: int, inner: int, element_bytes: int) -> Cost:
    """One sum an element; x (outer, reduced, inner) read, out (outer, inner) written."""
    elements = outer * reduced * inner
    return Cost(flops=elements, bytes=(elements + outer * inner) * element_bytes)


def case(device: str, dtype: str, *, reduced: int, outer: int = 1, inner: int = 1) -> Case:
    """Sum of x (outer, reduced, inner) over its middle dimension."""
    work = cost(outer=outer, reduced=reduced, inner=inner, element_bytes=ELEMENT_BYTES[dtype])
    return Case(
        f"{device}-{dtype}-o{outer}-r{reduced}-i{inner}",
        device=device,
        dtype=dtype,
        tolerance=_TOLERANCE[dtype],
        bytes=work.bytes,
        flops=work.flops,
        outer=outer,
        reduced=reduced,
        inner=inner,
    )


def reduce_sum(x: torch.Tensor, dim: tuple[int, ...], keepdim: bool = False) -> torch.Tensor:
    """The sum of x over dim in float64."""
    return x.double().sum(dim=dim, keepdim=keepdim)


class ReduceSum(warpwatch_benchmark.FormulaBenchmark):
    """Sum over the middle dimension; x (outer, reduced, inner), out (outer, 1, inner).

    The summed dimension stays, with a size of 1, so that out has one where all others are 1 too.
    """

    watched = Watched(
        kernels=(
            "reduce_sum_columns",
            "reduce_sum_long_rows",
            "reduce_sum_second_columns",
            "reduce_sum_short_rows",
        ),
        twins=("_reduce_sum",),
        sources=("reduce_sum/reduce_sum.cu",),
    )
    case = staticmethod(case)
    cases = (
        case("cuda", "fp32", reduced=2**28),  # 1.1 GB into one number
        case("cuda", "fp16", reduced=2**28),
        case("cuda", "fp16", outer=32768, reduced=4096),  # 268 MB, the contiguous axis
        case("cuda", "fp16", outer=65536, reduced=4096),
        case("cuda", "fp32", outer=16384, reduced=4096),
        case("cuda", "fp16", outer=1048576, reduced=128),
        case("cuda", "fp16", reduced=32768, inner=4096),  # 268 MB, the strided axis
        case("cuda", "fp16", reduced=65536, inner=4096),
        case("cuda", "fp32", reduced=16384, inner=4096),
        case("cuda", "fp16", outer=64, reduced=512, inner=4096),  # between two others
        case("cuda", "fp16", outer=128, reduced=512, inner=4096),
        case("cuda", "fp32", reduced=2**20),
        case("cuda", "fp16", outer=16, reduced=4096),
        case("cpu", "fp32", outer=256, reduced=1024),
        case("cpu", "fp32", reduced=1024, inner=256),
    )
    smallest = {"reduced": 16}

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal x: sums that cancel to about the root of their number, so that rounding errors show."""
        return {"x": draw.activation(case.outer, case.reduced, case.inner)}

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        """The sum in float64."""
        return reduce_sum(x, (_DIM,), keepdim=True)

    @staticmethod
    def formula(x: torch.Tensor, dim: int, keepdim: bool) -> torch.Tensor:
        """PyTorch's own sum."""
        return x.sum(dim=dim, keepdim=keepdim)

    def call_of(self, function: Callable[..., Any], x: torch.Tensor) -> Callable[[], Any]:
        """What is timed."""
        return lambda: function(x, _DIM, keepdim=True)
