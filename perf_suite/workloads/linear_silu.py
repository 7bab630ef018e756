"""Workloads of linear_silu: a linear layer with a SiLU behind it."""

from warpbench.workload import Workload

from .. import costs

# As linear_gelu's, whose kernels they are.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "eager", "torch_compile"),
    "cpu": ("warpwatch", "eager"),
}


def workload(device: str, dtype: str, *, depth: int, outputs: int, rows: int = 1) -> Workload:
    """silu of x (rows, depth) by a weight (outputs, depth)."""
    return Workload(
        operator="linear_silu",
        name=f"{device}-{dtype}-k{depth}-n{outputs}-m{rows}",
        device=device,
        dtype=dtype,
        parameters={"rows": rows, "outputs": outputs, "depth": depth},
        cost=costs.linear(rows=rows, outputs=outputs, depth=depth, element_bytes=costs.ELEMENT_BYTES[dtype]),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE[dtype],
    )


WORKLOADS = (
    workload("cuda", "fp16", depth=4096, outputs=11008, rows=1),  # Llama 2 7B's gate
    workload("cuda", "fp16", depth=4096, outputs=11008, rows=128),
    workload("cuda", "fp16", depth=4096, outputs=11008, rows=2048),
    workload("cpu", "fp32", depth=512, outputs=1024, rows=32),
)
