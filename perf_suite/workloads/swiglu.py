"""Workloads of swiglu: the first half of Llama's MLP."""

from warpbench.workload import Workload

from .. import costs

# Both products are rounded before they meet where they are PyTorch's; rounding to fp16 costs about 2.8e-4 (bf16: eight
# times that), and cuBLAS may add its split-K parts in fp16.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "eager", "torch_compile"),
    "cpu": ("warpwatch", "eager"),
}


def workload(device: str, dtype: str, *, depth: int, outputs: int, rows: int = 1) -> Workload:
    """x (rows, depth) by two weights (outputs, depth), the first through silu."""
    return Workload(
        operator="swiglu",
        name=f"{device}-{dtype}-k{depth}-n{outputs}-m{rows}",
        device=device,
        dtype=dtype,
        parameters={"rows": rows, "outputs": outputs, "depth": depth},
        cost=costs.swiglu(rows=rows, outputs=outputs, depth=depth, element_bytes=costs.ELEMENT_BYTES[dtype]),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE[dtype],
    )


WORKLOADS = (
    workload("cuda", "fp16", depth=4096, outputs=11008, rows=1),  # Llama 2 7B
    workload("cuda", "fp16", depth=4096, outputs=11008, rows=128),
    workload("cuda", "bf16", depth=4096, outputs=11008, rows=128),
    workload("cuda", "fp16", depth=4096, outputs=11008, rows=2048),
    workload("cuda", "fp16", depth=4096, outputs=14336, rows=512),  # Llama 3 8B
    workload("cpu", "fp32", depth=512, outputs=1024, rows=1),
    workload("cpu", "fp32", depth=512, outputs=1024, rows=32),
)
