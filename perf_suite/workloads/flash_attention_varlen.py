"""Workloads of flash_attention_varlen: prompts of many lengths, packed one behind the other."""

from warpbench.workload import Workload

from .. import costs
from ..language_models import LLAMA_2_7B, LLAMA_3_8B
from .flash_attention import TOLERANCE

_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "sdpa", "eager"),
    "cpu": ("warpwatch", "eager"),
}
_STRIDE = 7  # from one length to the next: neither sorted nor random


def mixed_lengths(batch: int, shortest: int, longest: int) -> tuple[int, ...]:
    """Evenly spaced logarithms from shortest to longest, as requests to a language model come: most of them short."""
    if batch == 1:
        return (longest,)
    ranks = sorted(range(batch), key=lambda i: (i * _STRIDE % batch, i))
    return tuple(round(shortest * (longest / shortest) ** (rank / (batch - 1))) for rank in ranks)


def workload(
    device: str,
    dtype: str,
    *,
    batch: int = 1,
    heads: int = 32,
    heads_kv: int | None = None,  # as many as heads
    shortest: int,
    longest: int,
    head_dim: int = 128,
    causal: bool = True,
) -> Workload:
    """Attention of `batch` sequences of mixed_lengths. Raises ValueError for heads that share key heads unevenly."""
    heads_kv = heads if heads_kv is None else heads_kv
    if heads % heads_kv:
        raise ValueError(f"heads ({heads}) must be a multiple of heads_kv ({heads_kv})")
    grouped = f"-kv{heads_kv}" if heads_kv != heads else ""
    mask = "causal" if causal else "full"
    return Workload(
        operator="flash_attention_varlen",
        name=f"{device}-{dtype}-b{batch}-h{heads}{grouped}-s{shortest}to{longest}-d{head_dim}-{mask}",
        device=device,
        dtype=dtype,
        parameters={
            "batch": batch,
            "heads_q": heads,
            "heads_kv": heads_kv,
            "shortest": shortest,
            "longest": longest,
            "head_dim": head_dim,
            "causal": causal,
        },
        cost=costs.flash_attention_varlen(
            lengths=mixed_lengths(batch, shortest, longest),
            heads_q=heads,
            heads_kv=heads_kv,
            head_dim=head_dim,
            causal=causal,
            element_bytes=costs.ELEMENT_BYTES[dtype],
        ),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=TOLERANCE[dtype],
    )


WORKLOADS = (
    workload("cuda", "fp16", batch=16, **LLAMA_2_7B.attention_heads, shortest=32, longest=4096, causal=True),
    workload("cuda", "fp16", batch=16, **LLAMA_3_8B.attention_heads, shortest=32, longest=4096, causal=True),
    workload("cpu", "fp32", batch=5, heads=4, heads_kv=2, shortest=8, longest=128, head_dim=64),
)
