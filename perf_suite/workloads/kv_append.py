"""Workloads of kv_append: they move bytes and compute nothing."""

from warpbench.workload import Workload

from .. import costs
from ..language_models import LLAMA_3_8B

# A copy is exact; what is allowed is far less than one wrong element makes of its row.
_TOLERANCE = 1e-9
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "eager", "torch_compile"),
    "cpu": ("warpwatch", "eager"),
}


def workload(
    device: str,
    dtype: str,
    *,
    batch: int = 1,
    heads: int = LLAMA_3_8B.heads_kv,
    tokens: int,
    capacity: int,
    head_dim: int = 128,
) -> Workload:
    """So many tokens' keys and values into caches (batch, heads, capacity, head_dim), each sequence at its own place.

    Raises ValueError if they do not fit.
    """
    if tokens > capacity:
        raise ValueError(f"{tokens} tokens do not fit a cache of capacity {capacity}")
    return Workload(
        operator="kv_append",
        name=f"{device}-{dtype}-b{batch}-h{heads}-n{tokens}-d{head_dim}-capacity{capacity}",
        device=device,
        dtype=dtype,
        parameters={"batch": batch, "heads": heads, "tokens": tokens, "capacity": capacity, "head_dim": head_dim},
        cost=costs.kv_append(
            batch=batch, heads=heads, tokens=tokens, head_dim=head_dim, element_bytes=costs.ELEMENT_BYTES[dtype]
        ),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE,
    )


WORKLOADS = (
    workload("cuda", "fp16", batch=16, tokens=2048, capacity=3072),  # 268 MB: the end of a prefill
    workload("cuda", "fp16", batch=32, tokens=2048, capacity=3072),
    workload("cuda", "bf16", batch=16, tokens=2048, capacity=3072),
    workload("cuda", "fp32", batch=8, tokens=2048, capacity=3072),
    workload("cuda", "fp16", batch=1, tokens=2048, capacity=4096),
    workload("cuda", "fp16", batch=64, tokens=1, capacity=256),  # a decode step of 64 sequences
    workload("cuda", "fp16", batch=1, tokens=1, capacity=4096),
    workload("cpu", "fp32", batch=2, tokens=64, capacity=128),
    workload("cpu", "fp32", batch=16, tokens=1, capacity=64),
)
