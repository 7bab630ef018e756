"""Workloads of rope: memory-bound."""

from dataclasses import replace

from warpbench.workload import Workload

from .. import costs
from ..language_models import LLAMA_2_13B, LLAMA_2_70B, LLAMA_3_8B

# Rounding the result to fp16 costs about 2.8e-4 (bf16: eight times that); fp32 arithmetic on the way is invisible
# beside it.
_TOLERANCE = {"fp16": 1e-3, "bf16": 8e-3, "fp32": 1e-6}
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "eager", "torch_compile"),
    "cpu": ("warpwatch", "eager"),
}


def workload(
    device: str,
    dtype: str,
    *,
    batch: int = 1,
    heads: int = 32,
    seq_len: int,
    head_dim: int = 128,
    interleaved: bool = False,
    computed: bool = False,  # angles from positions, and not from tables
) -> Workload:
    """Rotary position embedding of x (batch, heads, seq_len, head_dim). Raises ValueError for an odd head_dim."""
    if head_dim % 2:
        raise ValueError(f"head_dim ({head_dim}) must be even, for its elements turn in pairs")
    layout = ("-interleaved" if interleaved else "") + ("-computed" if computed else "")
    element_bytes = costs.ELEMENT_BYTES[dtype]
    return Workload(
        operator="rope",
        name=f"{device}-{dtype}-b{batch}-h{heads}-s{seq_len}-d{head_dim}{layout}",
        device=device,
        dtype=dtype,
        parameters={
            "batch": batch,
            "heads": heads,
            "seq": seq_len,
            "head_dim": head_dim,
            "interleaved": interleaved,
            **({"computed": True} if computed else {}),
        },
        cost=costs.rope(
            batch=batch, heads=heads, seq=seq_len, head_dim=head_dim, element_bytes=element_bytes, computed=computed
        ),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE[dtype],
    )


WORKLOADS = (
    replace(workload("cuda", "fp16", batch=8, heads=32, seq_len=2048), energy_of=("warpwatch", "torch_compile")),
    workload("cuda", "fp16", batch=16, heads=32, seq_len=2048),  # 537 MB
    workload("cuda", "fp16", batch=4, heads=32, seq_len=2048),
    workload("cuda", "fp16", batch=1, heads=32, seq_len=2048),
    workload("cuda", "bf16", batch=1, heads=32, seq_len=2048),
    workload("cuda", "fp16", batch=1, heads=32, seq_len=2048, interleaved=True),
    workload("cuda", "fp16", batch=8, heads=32, seq_len=2048, interleaved=True),
    workload("cuda", "fp16", batch=1, heads=32, seq_len=4096),
    workload("cuda", "fp16", batch=1, heads=32, seq_len=8192),
    workload("cuda", "fp16", batch=1, heads=LLAMA_2_13B.heads, seq_len=2048),
    workload("cuda", "fp16", batch=1, heads=LLAMA_2_70B.heads, seq_len=2048),
    workload("cuda", "fp16", batch=1, heads=LLAMA_3_8B.heads_kv, seq_len=2048),  # the keys of a prefill
    workload("cuda", "fp16", batch=1, heads=12, seq_len=1024, head_dim=64),
    workload("cuda", "fp16", batch=64, heads=32, seq_len=1),  # a decode step of 64 sequences
    workload("cuda", "fp16", batch=16, heads=32, seq_len=1),
    workload("cuda", "fp16", batch=1, heads=32, seq_len=1),
    workload("cuda", "fp16", batch=8, heads=32, seq_len=2048, computed=True),
    workload("cuda", "bf16", batch=8, heads=32, seq_len=2048, interleaved=True, computed=True),
    workload("cuda", "fp16", batch=64, heads=32, seq_len=1, computed=True),
    workload("cpu", "fp32", batch=1, heads=8, seq_len=256),
    workload("cpu", "fp32", batch=2, heads=8, seq_len=64, computed=True),
    workload("cpu", "fp32", batch=1, heads=8, seq_len=256, interleaved=True),
)
