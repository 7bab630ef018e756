"""Workloads of the controls: fixed kernels that no commit changes, so that what moves them is the machine."""

from .. import costs
from .workload import CONTROLS, Workload

_MIB = 1 << 20
# fp32 rounds once; fp16 results cost 2.8e-4 by themselves; fp32 sums over 384 products reach 1e-7.
_TRIAD_TOLERANCE = 1e-6
_MATMUL_TOLERANCE = {"fp16": 1e-3, "fp32": 1e-5}


def _triad(device: str, *, mib: int) -> Workload:
    elements = mib * _MIB // costs.ELEMENT_BYTES["fp32"]
    return Workload(
        operator="control",
        name=f"{device}-fp32-triad-{mib}mib",
        device=device,
        dtype="fp32",
        parameters={"elements": elements},
        cost=costs.triad(elements=elements, element_bytes=costs.ELEMENT_BYTES["fp32"]),
        implementations=CONTROLS,
        tolerance=_TRIAD_TOLERANCE,
    )


def _matmul(device: str, dtype: str, *, rows: int, outputs: int, depth: int) -> Workload:
    return Workload(
        operator="control",
        name=f"{device}-{dtype}-matmul-m{rows}-n{outputs}-k{depth}",
        device=device,
        dtype=dtype,
        parameters={"rows": rows, "outputs": outputs, "depth": depth},
        cost=costs.linear(rows=rows, outputs=outputs, depth=depth, element_bytes=costs.ELEMENT_BYTES[dtype]),
        implementations=CONTROLS,
        tolerance=_MATMUL_TOLERANCE[dtype],
    )


WORKLOADS = (
    _triad("cuda", mib=128),  # three such arrays are beyond every L2 there is, and fit into 4 GB
    _matmul("cuda", "fp16", rows=2048, outputs=2048, depth=2048),
    # Beyond a last-level cache of 32 MiB; larger arrays would come fresh from the kernel in each call, page by page.
    _triad("cpu", mib=16),
    _matmul("cpu", "fp32", rows=384, outputs=384, depth=384),
)
