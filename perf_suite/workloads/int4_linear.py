"""Workloads of int4_linear (W4A16, group 128): decode, memory-bound until some tens of rows."""

from dataclasses import replace

from .. import costs
from .workload import Workload

GROUP_SIZE = 128
# The cuBLAS baseline rounds the weight itself to fp16 (3e-4; bf16: eight times that) and may add its split-K parts in
# fp16.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "cublas", "eager", "torch_compile"),
    "cpu": ("warpwatch", "eager"),
}


def workload(device: str, dtype: str, *, depth: int, outputs: int, rows: int = 1) -> Workload:
    """x (rows, depth) by an INT4 weight (outputs, depth). Raises ValueError for a depth that is no whole groups."""
    if depth % GROUP_SIZE:
        raise ValueError(f"depth ({depth}) must be a multiple of the group size, {GROUP_SIZE}")
    return Workload(
        operator="int4_linear",
        name=f"{device}-{dtype}-k{depth}-n{outputs}-m{rows}",
        device=device,
        dtype=dtype,
        parameters={"rows": rows, "outputs": outputs, "depth": depth, "group_size": GROUP_SIZE},
        cost=costs.int4_linear(
            rows=rows,
            outputs=outputs,
            depth=depth,
            group_size=GROUP_SIZE,
            element_bytes=costs.ELEMENT_BYTES[dtype],
        ),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE[dtype],
    )


WORKLOADS = (
    workload("cuda", "fp16", depth=4096, outputs=4096, rows=1),
    workload("cuda", "fp16", depth=4096, outputs=4096, rows=16),
    workload("cuda", "fp16", depth=4096, outputs=6144, rows=1),  # q, k and v of Llama 3 8B; below, its MLP
    replace(workload("cuda", "fp16", depth=4096, outputs=14336, rows=1), energy_of=("warpwatch", "cublas")),
    workload("cuda", "fp16", depth=4096, outputs=14336, rows=8),
    workload("cuda", "fp16", depth=4096, outputs=14336, rows=16),
    workload("cuda", "fp16", depth=4096, outputs=14336, rows=64),
    workload("cuda", "fp16", depth=14336, outputs=4096, rows=1),
    workload("cuda", "fp16", depth=14336, outputs=4096, rows=16),
    workload("cuda", "fp16", depth=4096, outputs=11008, rows=1),  # the MLP of Llama 2 7B
    workload("cuda", "fp16", depth=4096, outputs=11008, rows=16),
    workload("cuda", "fp16", depth=11008, outputs=4096, rows=1),
    workload("cuda", "fp16", depth=11008, outputs=4096, rows=16),
    workload("cuda", "fp16", depth=5120, outputs=5120, rows=1),  # Llama 2 13B
    workload("cuda", "fp16", depth=5120, outputs=13824, rows=1),
    workload("cuda", "fp16", depth=5120, outputs=13824, rows=16),
    workload("cuda", "fp16", depth=8192, outputs=8192, rows=1),  # Llama 2 70B
    workload("cuda", "fp16", depth=8192, outputs=8192, rows=16),
    workload("cuda", "fp16", depth=8192, outputs=28672, rows=1),
    workload("cpu", "fp32", depth=1024, outputs=1024, rows=1),
    workload("cpu", "fp32", depth=1024, outputs=1024, rows=8),
)
