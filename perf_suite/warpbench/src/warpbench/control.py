"""The controls: fixed kernels that no commit changes, so that what moves them is the machine.

On a GPU they are the canaries, on the CPU PyTorch's own triad and matmul.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .benchmark import KernelBenchmark
from .case import Case
from .implementation import control

if TYPE_CHECKING:
    import torch

    from .draw import Draw

_MIB = 1 << 20
_FP32_BYTES = 4
_SCALE = 3.0  # STREAM's
# fp32 rounds once; fp16 results cost 2.8e-4 by themselves; fp32 sums over 384 products reach 1e-7.
_TRIAD_TOLERANCE = 1e-6
_MATMUL_TOLERANCE = {"fp16": 1e-3, "fp32": 1e-5}
_ELEMENT_BYTES = {"fp16": 2, "fp32": 4}


def _triad(device: str, *, mib: int) -> Case:
    elements = mib * _MIB // _FP32_BYTES
    return Case(
        f"{device}-fp32-triad-{mib}mib",
        device=device,
        dtype="fp32",
        tolerance=_TRIAD_TOLERANCE,
        bytes=3 * elements * _FP32_BYTES,
        flops=2 * elements,
        elements=elements,
    )


def _matmul(device: str, dtype: str, *, rows: int, outputs: int, depth: int) -> Case:
    return Case(
        f"{device}-{dtype}-matmul-m{rows}-n{outputs}-k{depth}",
        device=device,
        dtype=dtype,
        tolerance=_MATMUL_TOLERANCE[dtype],
        bytes=(rows * depth + outputs * depth + rows * outputs) * _ELEMENT_BYTES[dtype],
        flops=2 * rows * outputs * depth,
        rows=rows,
        outputs=outputs,
        depth=depth,
    )


class Control(KernelBenchmark):
    """Triad and matmul."""

    cases = (
        _triad("cuda", mib=128),  # three such arrays are beyond every L2 there is, and fit into 4 GB
        _matmul("cuda", "fp16", rows=2048, outputs=2048, depth=2048),
        # Beyond a last-level cache of 32 MiB; the system would hand larger arrays out anew in each call, page by page.
        _triad("cpu", mib=16),
        _matmul("cpu", "fp32", rows=384, outputs=384, depth=384),
    )
    reference_in_float64 = False  # arrays of this size are kept as few as possible

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal tensors; the weight is scaled by 1 / sqrt(depth), so that the results are normal too."""
        if "elements" in case.shape:
            return {"b": draw.activation(case.elements), "c": draw.weight(case.elements)}
        weight = draw.weight(case.outputs, case.depth, scale=case.depth**-0.5)
        return {"x": draw.activation(case.rows, case.depth), "weight": weight}

    def reference(self, **inputs: torch.Tensor) -> torch.Tensor:
        """b + scale * c, or x weight^T, in float64."""
        if "b" in inputs:
            return inputs["b"].double().add_(inputs["c"], alpha=_SCALE)
        return inputs["x"].double() @ inputs["weight"].double().T

    @control(binds=True)
    def canary(self, **inputs: torch.Tensor) -> Callable[[], torch.Tensor]:
        """The fixed kernel of these inputs. Raises UnavailableError where the GPU or the driver API lacks for it."""
        import torch

        from .canaries import launch

        if "b" in inputs:
            b, c = inputs["b"], inputs["c"]
            if not b.is_cuda:
                return lambda: torch.add(b, c, alpha=_SCALE)
            launch.load()
            return lambda: launch.triad(b, c, _SCALE)
        x, weight = inputs["x"], inputs["weight"]
        if not x.is_cuda:
            return lambda: torch.nn.functional.linear(x, weight)
        launch.load()
        return lambda: launch.matmul(x, weight)
