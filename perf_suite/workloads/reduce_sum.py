"""Workloads of reduce_sum: memory-bound."""

from warpbench.workload import Workload

from .. import costs

# Rounding a sum to fp16 costs about 2.8e-4 (bf16: eight times that). Of normal numbers, a sum of n is some sqrt(n) and
# its partial sums are no larger: fp32 on the way loses some 1e-7 an addition along the longest chain, of hundreds.
_TOLERANCE = {"fp16": 1e-3, "bf16": 8e-3, "fp32": 2e-5}
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "eager", "torch_compile"),
    "cpu": ("warpwatch", "eager"),
}


def workload(device: str, dtype: str, *, reduced: int, outer: int = 1, inner: int = 1) -> Workload:
    """Sum of x (outer, reduced, inner) over its middle dimension."""
    return Workload(
        operator="reduce_sum",
        name=f"{device}-{dtype}-o{outer}-r{reduced}-i{inner}",
        device=device,
        dtype=dtype,
        parameters={"outer": outer, "reduced": reduced, "inner": inner},
        cost=costs.reduce_sum(outer=outer, reduced=reduced, inner=inner, element_bytes=costs.ELEMENT_BYTES[dtype]),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE[dtype],
    )


WORKLOADS = (
    workload("cuda", "fp32", reduced=2**28),  # 1.1 GB into one number
    workload("cuda", "fp16", reduced=2**28),
    workload("cuda", "fp16", outer=32768, reduced=4096),  # 268 MB, the contiguous axis
    workload("cuda", "fp16", outer=65536, reduced=4096),
    workload("cuda", "fp32", outer=16384, reduced=4096),
    workload("cuda", "fp16", outer=1048576, reduced=128),
    workload("cuda", "fp16", reduced=32768, inner=4096),  # 268 MB, the strided axis
    workload("cuda", "fp16", reduced=65536, inner=4096),
    workload("cuda", "fp32", reduced=16384, inner=4096),
    workload("cuda", "fp16", outer=64, reduced=512, inner=4096),  # between two others
    workload("cuda", "fp16", outer=128, reduced=512, inner=4096),
    workload("cuda", "fp32", reduced=2**20),
    workload("cuda", "fp16", outer=16, reduced=4096),
    workload("cpu", "fp32", outer=256, reduced=1024),
    workload("cpu", "fp32", reduced=1024, inner=256),
)
