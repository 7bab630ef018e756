"""vector_add: memory-bound."""

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

# Rounding the sum to fp16 costs about 2.8e-4 (bf16: eight times that).
_TOLERANCE = {"fp16": 1e-3, "bf16": 8e-3, "fp32": 1e-6}


def cost(*, elements: int, element_bytes: int) -> Cost:
    """One addition an element; two vectors read, one written."""
    return Cost(flops=elements, bytes=3 * elements * element_bytes)


def case(device: str, dtype: str, *, elements: int) -> Case:
    """Addition of two vectors."""
    work = cost(elements=elements, element_bytes=ELEMENT_BYTES[dtype])
    return Case(
        f"{device}-{dtype}-n{elements}",
        device=device,
        dtype=dtype,
        tolerance=_TOLERANCE[dtype],
        bytes=work.bytes,
        flops=work.flops,
        elements=elements,
    )


class VectorAdd(warpwatch_benchmark.FormulaBenchmark):
    """out = a + b; a, b, out (elements)."""

    watched = Watched(
        kernels=(
            "vector_add_elements",
            "vector_add_pieces",
        ),
        twins=("_vector_add",),
        sources=("vector_add/vector_add.cu",),
    )
    case = staticmethod(case)
    cases = (
        case("cuda", "fp32", elements=2**28),  # 3.2 GB
        case("cuda", "fp16", elements=2**28),
        case("cuda", "bf16", elements=2**28),
        case("cuda", "fp16", elements=2**26),  # 403 MB
        case("cuda", "fp32", elements=2**20),
        case("cuda", "fp32", elements=2**10),
        case("cpu", "fp32", elements=2**18),
    )
    smallest = {"elements": 16}

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal vectors."""
        return {"a": draw.activation(case.elements), "b": draw.activation(case.elements)}

    def reference(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """a + b in float64."""
        return a + b

    @staticmethod
    def formula(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """PyTorch's own addition."""
        return a + b
