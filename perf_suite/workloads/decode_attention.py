"""Workloads of decode_attention, a decode step over a contiguous cache: memory-bound."""

from dataclasses import replace

from warpbench.workload import Workload

from .. import costs

# Results are means over thousands of values, small beside the weights' and values' own rounding; as in flash_attention.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "sdpa", "eager"),
    "cpu": ("warpwatch", "sdpa", "eager"),
}


def workload(
    device: str,
    dtype: str,
    *,
    batch: int = 1,
    heads: int = 32,
    heads_kv: int | None = None,  # as many as heads
    seq_len: int = 1,  # new tokens
    seq_len_kv: int,  # keys of each sequence, the new tokens' own among them
    head_dim: int = 128,
) -> Workload:
    """A few new tokens over a cache. Raises ValueError for too many, and for heads not shared evenly."""
    heads_kv = heads if heads_kv is None else heads_kv
    if heads % heads_kv:
        raise ValueError(f"heads ({heads}) must be a multiple of heads_kv ({heads_kv})")
    if not seq_len <= min(8, seq_len_kv):
        raise ValueError(f"seq_len ({seq_len}) must be at most 8 and at most seq_len_kv ({seq_len_kv})")
    grouped = f"-kv{heads_kv}" if heads_kv != heads else ""
    return Workload(
        operator="decode_attention",
        name=f"{device}-{dtype}-b{batch}-h{heads}{grouped}-s{seq_len}x{seq_len_kv}-d{head_dim}",
        device=device,
        dtype=dtype,
        parameters={
            "batch": batch,
            "heads_q": heads,
            "heads_kv": heads_kv,
            "seq_q": seq_len,
            "seq_kv": seq_len_kv,
            "head_dim": head_dim,
        },
        cost=costs.decode_attention(
            batch=batch,
            heads_q=heads,
            heads_kv=heads_kv,
            seq_q=seq_len,
            keys=seq_len_kv,
            head_dim=head_dim,
            element_bytes=costs.ELEMENT_BYTES[dtype],
        ),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE[dtype],
    )


WORKLOADS = (
    workload("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=1024),  # Llama 3 8B
    replace(workload("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=4096), energy_of=("warpwatch", "sdpa")),
    workload("cuda", "bf16", batch=8, heads=32, heads_kv=8, seq_len_kv=4096),
    workload("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=16384),
    workload("cuda", "fp16", batch=1, heads=32, heads_kv=8, seq_len_kv=4096),
    workload("cuda", "fp16", batch=1, heads=32, heads_kv=8, seq_len_kv=32768),
    workload("cuda", "fp16", batch=64, heads=32, heads_kv=8, seq_len_kv=1024),
    workload("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len=4, seq_len_kv=4096),  # speculative decoding
    workload("cuda", "fp16", batch=8, heads=32, seq_len_kv=1024),  # Llama 2 7B
    workload("cuda", "fp16", batch=8, heads=64, heads_kv=8, seq_len_kv=4096),  # Llama 2 70B
    workload("cuda", "fp16", batch=8, heads=12, seq_len_kv=1024, head_dim=64),  # GPT-2 124M
    workload("cuda", "fp32", batch=8, heads=32, heads_kv=8, seq_len_kv=1024),
    workload("cpu", "fp32", batch=2, heads=8, heads_kv=2, seq_len_kv=512, head_dim=64),
    workload("cpu", "fp32", batch=1, heads=4, seq_len=4, seq_len_kv=256, head_dim=64),
)
