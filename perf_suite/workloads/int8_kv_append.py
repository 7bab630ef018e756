"""Workloads of int8_kv_append: new keys and values into a cache of 8-bit integers."""

from warpbench.workload import Workload

from .. import costs
from ..language_models import LLAMA_3_8B

# The gate holds what the codes stand for within half a step, so that of an honest call no error is left.
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
        operator="int8_kv_append",
        name=f"{device}-{dtype}-b{batch}-h{heads}-n{tokens}-d{head_dim}-capacity{capacity}",
        device=device,
        dtype=dtype,
        parameters={"batch": batch, "heads": heads, "tokens": tokens, "capacity": capacity, "head_dim": head_dim},
        cost=costs.int8_kv_append(
            batch=batch, heads=heads, tokens=tokens, head_dim=head_dim, element_bytes=costs.ELEMENT_BYTES[dtype]
        ),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE,
        arithmetic="fp32",
    )


WORKLOADS = (
    workload("cuda", "fp16", batch=8, tokens=4096, capacity=4096),  # 201 MB: a prompt
    workload("cuda", "fp16", batch=64, tokens=1, capacity=4096),  # a decode step of 64 sequences
    workload("cuda", "fp16", batch=8, tokens=1, capacity=4096),
    workload("cpu", "fp32", batch=2, tokens=64, capacity=128),
    workload("cpu", "fp32", batch=16, tokens=1, capacity=64),
)
