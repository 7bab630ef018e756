"""Workloads of paged_kv_gather: they move bytes and compute nothing."""

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
    seq_len: int,
    head_dim: int = 128,
    page_size: int = 64,
) -> Workload:
    """All keys and values of so many sequences of seq_len, their pages anywhere.

    Raises ValueError for another page_size than 16 to 256, and for a seq_len that is not whole pages.
    """
    if page_size not in (16, 32, 64, 128, 256):
        raise ValueError(f"page_size must be 16, 32, 64, 128 or 256, got {page_size}")
    if seq_len % page_size:
        raise ValueError(f"a seq_len of {seq_len} is not a number of whole pages of {page_size}")
    return Workload(
        operator="paged_kv_gather",
        name=f"{device}-{dtype}-b{batch}-h{heads}-s{seq_len}-d{head_dim}-page{page_size}",
        device=device,
        dtype=dtype,
        parameters={
            "batch": batch,
            "heads": heads,
            "seq_kv": seq_len,
            "head_dim": head_dim,
            "page_size": page_size,
        },
        cost=costs.paged_kv_gather(
            batch=batch,
            heads=heads,
            keys=seq_len,
            head_dim=head_dim,
            element_bytes=costs.ELEMENT_BYTES[dtype],
            table_entries=batch * (seq_len // page_size),
        ),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE,
    )


WORKLOADS = (
    workload("cuda", "fp16", batch=8, seq_len=4096, page_size=16),  # 268 MB
    workload("cuda", "fp16", batch=8, seq_len=4096),
    workload("cuda", "fp32", batch=1, seq_len=4096, page_size=256),
    workload("cpu", "fp32", batch=2, seq_len=256, page_size=16),
)
