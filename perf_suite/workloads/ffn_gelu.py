"""Workloads of ffn_gelu: a whole feed-forward network around a GELU, with biases."""

from warpbench.workload import Workload

from .. import costs

# The hidden values are rounded between the products, and carry the roundings of linear_gelu into the second.
_TOLERANCE = {"fp16": 3e-3, "bf16": 2.4e-2, "fp32": 1e-5}
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "eager", "torch_compile"),
    "cpu": ("warpwatch", "eager"),
}


def workload(device: str, dtype: str, *, depth: int, outputs: int, rows: int = 1, tanh: bool = False) -> Workload:
    """x (rows, depth) up to `outputs` and down to depth again; the gelu by erf, or by its approximation with tanh."""
    approximation = "-tanh" if tanh else ""
    return Workload(
        operator="ffn_gelu",
        name=f"{device}-{dtype}-k{depth}-n{outputs}-m{rows}{approximation}",
        device=device,
        dtype=dtype,
        parameters={"rows": rows, "outputs": outputs, "depth": depth, "tanh": tanh},
        cost=costs.ffn(rows=rows, hidden=outputs, depth=depth, element_bytes=costs.ELEMENT_BYTES[dtype]),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE[dtype],
    )


WORKLOADS = (
    workload("cuda", "fp16", depth=4096, outputs=11008, rows=512),
    workload("cuda", "fp16", depth=4096, outputs=11008, rows=2048),
    workload("cuda", "fp16", depth=4096, outputs=11008, rows=4096),
    workload("cuda", "fp16", depth=768, outputs=3072, rows=1024, tanh=True),  # GPT-2 124M
    workload("cpu", "fp32", depth=256, outputs=512, rows=32),
)
