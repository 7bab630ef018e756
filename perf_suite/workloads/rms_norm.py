"""Workloads of rms_norm: memory-bound."""

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
    """Root-mean-square normalisation of rows; with a residual, of its sum with them, which is a second output."""
    return Workload(
        operator="rms_norm",
        name=f"{device}-{dtype}-r{rows}-c{cols}{'-residual' if residual else ''}",
        device=device,
        dtype=dtype,
        parameters={"rows": rows, "cols": cols, "residual": residual},
        cost=costs.rms_norm(rows=rows, cols=cols, residual=residual, element_bytes=costs.ELEMENT_BYTES[dtype]),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE[dtype],
    )


WORKLOADS = (
    workload("cuda", "fp16", rows=16384),  # 268 MB
    workload("cuda", "fp16", rows=32768),
    workload("cuda", "fp16", rows=16384, residual=True),
    workload("cuda", "bf16", rows=16384, residual=True),
    workload("cuda", "fp32", rows=16384),
    workload("cuda", "fp16", rows=8192, cols=8192, residual=True),  # Llama 2 70B
    workload("cuda", "fp16", rows=524288, cols=128),  # queries or keys, each head by itself
    workload("cuda", "fp16", rows=2048, residual=True),  # a prefill
    workload("cuda", "fp16", rows=64, residual=True),  # a decode step of 64 sequences
    workload("cuda", "fp16", rows=1, residual=True),
    workload("cpu", "fp32", rows=256, cols=1024),
    workload("cpu", "fp32", rows=256, cols=1024, residual=True),
)
