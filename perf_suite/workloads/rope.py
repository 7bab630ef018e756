"""Workloads of rope: memory-bound."""

from .. import costs
from .workload import Workload

# Rounding the result to fp16 costs about 2.8e-4; fp32 arithmetic on the way is invisible beside it.
_TOLERANCE = {"fp16": 1e-3, "fp32": 1e-6}
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "eager", "torch_compile"),
    "cpu": ("warpwatch", "eager"),
}


def _row(
    device: str,
    dtype: str,
    *,
    batch: int,
    heads: int,
    seq: int,
    head_dim: int = 128,
    interleaved: bool = False,
) -> Workload:
    layout = "-interleaved" if interleaved else ""
    return Workload(
        operator="rope",
        name=f"{device}-{dtype}-b{batch}-h{heads}-s{seq}-d{head_dim}{layout}",
        device=device,
        dtype=dtype,
        parameters={
            "batch": batch,
            "heads": heads,
            "seq": seq,
            "head_dim": head_dim,
            "interleaved": interleaved,
        },
        cost=costs.rope(batch=batch, heads=heads, seq=seq, head_dim=head_dim, element_bytes=costs.ELEMENT_BYTES[dtype]),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE[dtype],
    )


WORKLOADS = (
    _row("cuda", "fp16", batch=8, heads=32, seq=2048),
    _row("cuda", "fp16", batch=1, heads=32, seq=2048),
    _row("cuda", "fp16", batch=1, heads=32, seq=2048, interleaved=True),
    _row("cuda", "fp16", batch=1, heads=8, seq=2048),  # the keys of a Llama 3 prefill
    _row("cuda", "fp16", batch=64, heads=32, seq=1),  # a decode step of 64 sequences
    _row("cuda", "fp16", batch=1, heads=32, seq=1),
    _row("cpu", "fp32", batch=1, heads=8, seq=256),
    _row("cpu", "fp32", batch=1, heads=8, seq=256, interleaved=True),
)
