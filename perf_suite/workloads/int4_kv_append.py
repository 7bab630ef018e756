"""Workloads of int4_kv_append: new keys and values into KIVI's 4-bit cache, where 32 tokens are quantized together."""

from warpbench.workload import Workload

from .. import costs
from ..language_models import LLAMA_3_8B

# The gate holds what the codes stand for within half a step, so that of an honest call no error is left.
_TOLERANCE = 1e-9
_GROUP = 32
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
    """So many tokens' keys and values into caches of so many tokens, each sequence at its own place.

    A single token is the last of its group in every 32nd sequence, the first one among them, and otherwise stays in the
    window; several begin with a group, for a second call must find what the first one found.
    Raises ValueError if they do not fit, or the cache or head_dim does not hold whole groups.
    """
    if tokens > capacity:
        raise ValueError(f"{tokens} tokens do not fit a cache of capacity {capacity}")
    if capacity % _GROUP or head_dim % _GROUP:
        raise ValueError(f"capacity and head_dim must be multiples of {_GROUP}, got {capacity} and {head_dim}")
    closed = -(-batch // _GROUP)  # groups, of a single token
    whole, from_window = (
        (closed * _GROUP, closed * (_GROUP - 1)) if tokens == 1 else (batch * (tokens // _GROUP * _GROUP), 0)
    )
    return Workload(
        operator="int4_kv_append",
        name=f"{device}-{dtype}-b{batch}-h{heads}-n{tokens}-d{head_dim}-capacity{capacity}",
        device=device,
        dtype=dtype,
        parameters={"batch": batch, "heads": heads, "tokens": tokens, "capacity": capacity, "head_dim": head_dim},
        cost=costs.int4_kv_append(
            batch=batch,
            heads=heads,
            tokens=tokens,
            head_dim=head_dim,
            element_bytes=costs.ELEMENT_BYTES[dtype],
            whole=whole,
            from_window=from_window,
        ),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE,
        arithmetic="fp32",
    )


WORKLOADS = (
    workload("cuda", "fp16", batch=8, tokens=4096, capacity=4096),  # 176 MB: a prompt
    workload("cuda", "fp16", batch=64, tokens=1, capacity=4096),  # a decode step of 64 sequences
    workload("cuda", "fp16", batch=8, tokens=1, capacity=4096),
    workload("cpu", "fp32", batch=2, tokens=77, capacity=128),
    workload("cpu", "fp32", batch=34, heads=2, tokens=1, capacity=64, head_dim=64),
)
