"""Workloads of linear_gelu: the first half of a transformer's MLP, with its bias."""

from warpbench.workload import Workload

from .. import costs

# The product is rounded once more where two launches make it; rounding to fp16 costs about 2.8e-4 (bf16: eight times
# that), and cuBLAS may add its split-K parts in fp16.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "eager", "torch_compile"),
    "cpu": ("warpwatch", "eager"),
}


def workload(device: str, dtype: str, *, depth: int, outputs: int, rows: int = 1, tanh: bool = False) -> Workload:
    """gelu of x (rows, depth) by a weight (outputs, depth) and a bias; by erf, or by its approximation with tanh."""
    approximation = "-tanh" if tanh else ""
    return Workload(
        operator="linear_gelu",
        name=f"{device}-{dtype}-k{depth}-n{outputs}-m{rows}{approximation}",
        device=device,
        dtype=dtype,
        parameters={"rows": rows, "outputs": outputs, "depth": depth, "tanh": tanh},
        cost=costs.linear(rows=rows, outputs=outputs, depth=depth, element_bytes=costs.ELEMENT_BYTES[dtype]),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE[dtype],
    )


WORKLOADS = (
    workload("cuda", "fp16", depth=4096, outputs=16384, rows=1),
    workload("cuda", "fp16", depth=4096, outputs=16384, rows=128),
    workload("cuda", "fp16", depth=4096, outputs=16384, rows=128, tanh=True),
    workload("cuda", "bf16", depth=4096, outputs=16384, rows=128),
    workload("cuda", "fp16", depth=4096, outputs=16384, rows=2048),
    workload("cuda", "fp16", depth=768, outputs=3072, rows=1024, tanh=True),  # GPT-2 124M
    workload("cpu", "fp32", depth=512, outputs=1024, rows=1),
    workload("cpu", "fp32", depth=512, outputs=1024, rows=32, tanh=True),
)
