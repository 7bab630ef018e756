"""Workloads of paged_decode_attention, a decode step over a cache in pages: decode_attention's, and a block table."""

from dataclasses import replace

from warpbench.workload import Workload

from .. import costs
from . import decode_attention

_IMPLEMENTATIONS = {"cuda": ("warpwatch", "triton", "sdpa", "eager"), "cpu": ("warpwatch", "sdpa", "eager")}


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
    page_size: int = 64,
) -> Workload:
    """decode_attention's row over pages. Raises ValueError as it does, and for another page_size than 16 to 256."""
    if page_size not in (16, 32, 64, 128, 256):
        raise ValueError(f"page_size must be 16, 32, 64, 128 or 256, got {page_size}")
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
        operator="paged_decode_attention",
        name=f"{row.name}-page{page_size}",
        parameters={**row.parameters, "page_size": page_size},
        implementations=_IMPLEMENTATIONS[device],
        cost=costs.decode_attention(
            batch=batch,
            heads_q=heads,
            heads_kv=row.parameters["heads_kv"],
            seq_q=seq_len,
            keys=seq_len_kv,
            head_dim=head_dim,
            element_bytes=costs.ELEMENT_BYTES[dtype],
            table_entries=batch * -(-seq_len_kv // page_size),
        ),
    )


WORKLOADS = (
    workload("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=1024, page_size=64),
    workload("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=4096, page_size=16),
    workload("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=4096, page_size=64),
    workload("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=4096, page_size=256),
    workload("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=16384, page_size=64),
    workload("cpu", "fp32", batch=2, heads=8, heads_kv=2, seq_len_kv=500, head_dim=64, page_size=16),
)
