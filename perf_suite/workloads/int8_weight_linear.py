"""Workloads of int8_weight_linear (W8A16): memory-bound until some tens of rows."""

from warpbench.workload import Workload

from .. import costs

# The cuBLAS baseline rounds the weight itself to fp16 (3e-4; bf16: eight times that) and may add its split-K parts in
# fp16.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "cublas", "eager", "torch_compile"),
    "cpu": ("warpwatch", "eager"),
}


def workload(device: str, dtype: str, *, depth: int, outputs: int, rows: int = 1) -> Workload:
    """x (rows, depth) by an INT8 weight (outputs, depth)."""
    return Workload(
        operator="int8_weight_linear",
        name=f"{device}-{dtype}-k{depth}-n{outputs}-m{rows}",
        device=device,
        dtype=dtype,
        parameters={"rows": rows, "outputs": outputs, "depth": depth},
        cost=costs.int8_linear(rows=rows, outputs=outputs, depth=depth, element_bytes=costs.ELEMENT_BYTES[dtype]),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE[dtype],
    )


WORKLOADS = (
    workload("cuda", "fp16", depth=4096, outputs=4096, rows=1),
    workload("cuda", "fp16", depth=4096, outputs=14336, rows=1),  # the MLP of Llama 3 8B
    workload("cuda", "bf16", depth=4096, outputs=14336, rows=1),
    workload("cuda", "fp16", depth=4096, outputs=14336, rows=16),
    workload("cuda", "fp16", depth=4096, outputs=14336, rows=64),
    workload("cuda", "fp16", depth=4096, outputs=14336, rows=512),
    workload("cuda", "fp16", depth=14336, outputs=4096, rows=1),
    workload("cuda", "fp16", depth=14336, outputs=4096, rows=16),
    workload("cpu", "fp32", depth=1024, outputs=1024, rows=1),
    workload("cpu", "fp32", depth=1024, outputs=1024, rows=8),
)
