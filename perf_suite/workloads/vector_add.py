"""Workloads of vector_add: memory-bound."""

from warpbench.workload import Workload

from .. import costs

# Rounding the sum to fp16 costs about 2.8e-4 (bf16: eight times that).
_TOLERANCE = {"fp16": 1e-3, "bf16": 8e-3, "fp32": 1e-6}
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "eager", "torch_compile"),
    "cpu": ("warpwatch", "eager"),
}


def workload(device: str, dtype: str, *, elements: int) -> Workload:
    """Addition of two vectors."""
    return Workload(
        operator="vector_add",
        name=f"{device}-{dtype}-n{elements}",
        device=device,
        dtype=dtype,
        parameters={"elements": elements},
        cost=costs.vector_add(elements=elements, element_bytes=costs.ELEMENT_BYTES[dtype]),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE[dtype],
    )


WORKLOADS = (
    workload("cuda", "fp32", elements=2**28),  # 3.2 GB
    workload("cuda", "fp16", elements=2**28),
    workload("cuda", "bf16", elements=2**28),
    workload("cuda", "fp16", elements=2**26),  # 403 MB
    workload("cuda", "fp32", elements=2**20),
    workload("cuda", "fp32", elements=2**10),
    workload("cpu", "fp32", elements=2**18),
)
