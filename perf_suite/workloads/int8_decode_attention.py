"""Workloads of int8_decode_attention, a decode step over 8-bit cache: half of decode_attention's bytes."""

from dataclasses import replace

from warpbench.workload import Workload

from .. import costs
from . import decode_attention

# The reference attends over what codes and scales stand for: what is left is decode_attention's rounding.
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "unquantized", "sdpa", "eager"),
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
    """decode_attention's row over quantized keys and values. Raises ValueError as it does."""
    row = decode_attention.workload(
        device,
        dtype,
        batch=batch,
        heads=heads,
        heads_kv=heads_kv,
        seq_len=seq_len,
        seq_len_kv=seq_len_kv,
        head_dim=head_dim,
    )
    return replace(
        row,
        operator="int8_decode_attention",
        cost=costs.int8_decode_attention(
            batch=batch,
            heads_q=heads,
            heads_kv=heads_kv or heads,
            seq_q=seq_len,
            keys=seq_len_kv,
            head_dim=head_dim,
            element_bytes=costs.ELEMENT_BYTES[dtype],
        ),
        implementations=_IMPLEMENTATIONS[device],
    )


WORKLOADS = (
    workload("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=1024),  # Llama 3 8B
    replace(workload("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=4096), energy_of=("warpwatch", "sdpa")),
    workload("cuda", "bf16", batch=8, heads=32, heads_kv=8, seq_len_kv=4096),
    workload("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=16384),
    workload("cuda", "fp16", batch=1, heads=32, heads_kv=8, seq_len_kv=32768),
    workload("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len=4, seq_len_kv=4096),  # speculative decoding
    workload("cuda", "fp16", batch=8, heads=32, seq_len_kv=1024),  # Llama 2 7B
    workload("cpu", "fp32", batch=2, heads=8, heads_kv=2, seq_len_kv=512, head_dim=64),
)
