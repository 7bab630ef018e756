"""Workloads of layer_norm: memory-bound."""

from warpbench.workload import Workload

from .. import costs

# Rounding the result to fp16 costs about 2.8e-4 (bf16: eight times that); fp32 arithmetic on the way is invisible
# beside it.
_TOLERANCE = {"fp16": 1e-3, "bf16": 8e-3, "fp32": 1e-6}
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "eager", "torch_compile"),
    "cpu": ("warpwatch", "eager"),
}


def workload(device: str, dtype: str, *, rows: int, cols: int = 4096, residual: bool = False) -> Workload:
    """Layer normalisation of rows; with a residual, of its sum with them, which is a second output."""
    return Workload(
        operator="layer_norm",
        name=f"{device}-{dtype}-r{rows}-c{cols}{'-residual' if residual else ''}",
        device=device,
        dtype=dtype,
        parameters={"rows": rows, "cols": cols, "residual": residual},
        cost=costs.layer_norm(rows=rows, cols=cols, residual=residual, element_bytes=costs.ELEMENT_BYTES[dtype]),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE[dtype],
    )


WORKLOADS = (
    workload("cuda", "fp16", rows=16384),  # 268 MB
    workload("cuda", "fp16", rows=32768),
    workload("cuda", "fp16", rows=16384, residual=True),
    workload("cuda", "bf16", rows=16384, residual=True),
    workload("cuda", "fp32", rows=16384),
    workload("cuda", "fp16", rows=98304, cols=768, residual=True),  # GPT-2 124M
    workload("cuda", "fp16", rows=1024, cols=768, residual=True),
    workload("cuda", "fp16", rows=64, cols=768, residual=True),  # a decode step of 64 sequences
    workload("cuda", "fp16", rows=1, cols=768, residual=True),
    workload("cpu", "fp32", rows=256, cols=768),
    workload("cpu", "fp32", rows=256, cols=768, residual=True),
)
