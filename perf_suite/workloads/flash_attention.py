"""Workloads of flash_attention, forward: compute-bound."""

from .. import costs
from .workload import Workload

# Softmax weights and results are rounded to fp16, about 3e-4 each; fp32 sums over the keys reach 1e-6.
_TOLERANCE = {"fp16": 2e-3, "fp32": 1e-5}
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "sdpa", "eager"),
    "cpu": ("warpwatch", "sdpa", "eager"),
}


def _row(
    device: str,
    dtype: str,
    *,
    batch: int = 1,
    heads: int,
    heads_kv: int | None = None,
    seq: int,
    head_dim: int,
    causal: bool,
) -> Workload:
    heads_kv = heads if heads_kv is None else heads_kv
    grouped = f"-kv{heads_kv}" if heads_kv != heads else ""
    mask = "causal" if causal else "full"
    return Workload(
        operator="flash_attention",
        name=f"{device}-{dtype}-b{batch}-h{heads}{grouped}-s{seq}-d{head_dim}-{mask}",
        device=device,
        dtype=dtype,
        parameters={
            "batch": batch,
            "heads_q": heads,
            "heads_kv": heads_kv,
            "seq_q": seq,
            "seq_kv": seq,
            "head_dim": head_dim,
            "causal": causal,
        },
        cost=costs.flash_attention(
            batch=batch,
            heads_q=heads,
            heads_kv=heads_kv,
            seq_q=seq,
            seq_kv=seq,
            head_dim=head_dim,
            causal=causal,
            element_bytes=costs.ELEMENT_BYTES[dtype],
        ),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE[dtype],
    )


WORKLOADS = (
    _row("cuda", "fp16", batch=16, heads=32, seq=512, head_dim=64, causal=False),
    _row("cuda", "fp16", heads=32, seq=512, head_dim=128, causal=True),
    _row("cuda", "fp16", heads=32, seq=1024, head_dim=128, causal=True),
    _row("cuda", "fp16", heads=32, seq=2048, head_dim=128, causal=True),
    _row("cuda", "fp16", heads=32, seq=4096, head_dim=128, causal=True),
    _row("cuda", "fp16", heads=32, heads_kv=8, seq=2048, head_dim=128, causal=True),  # a Llama 3 prefill
    _row("cpu", "fp32", heads=4, seq=128, head_dim=64, causal=True),
    _row("cpu", "fp32", heads=8, heads_kv=2, seq=128, head_dim=64, causal=False),
)
