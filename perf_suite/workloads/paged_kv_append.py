"""Workloads of paged_kv_append: kv_append's, and a block table."""

from dataclasses import replace

from warpbench.workload import Workload

from .. import costs
from ..language_models import LLAMA_3_8B
from . import kv_append


def workload(
    device: str,
    dtype: str,
    *,
    batch: int = 1,
    heads: int = LLAMA_3_8B.heads_kv,
    tokens: int,
    capacity: int,
    head_dim: int = 128,
    page_size: int = 64,
) -> Workload:
    """kv_append's row over pages, capacity being a sequence's room in them.

    Raises ValueError as it does, for another page_size than 16 to 256, and for a capacity that is not whole pages.
    """
    if page_size not in (16, 32, 64, 128, 256):
        raise ValueError(f"page_size must be 16, 32, 64, 128 or 256, got {page_size}")
    row = kv_append.workload(
        device, dtype, batch=batch, heads=heads, tokens=tokens, capacity=capacity, head_dim=head_dim
    )
    if capacity % page_size:
        raise ValueError(f"a capacity of {capacity} is not a number of whole pages of {page_size}")
    return replace(
        row,
        operator="paged_kv_append",
        name=f"{row.name}-page{page_size}",
        parameters={**row.parameters, "page_size": page_size},
        cost=costs.paged_kv_append(
            batch=batch,
            heads=heads,
            tokens=tokens,
            head_dim=head_dim,
            element_bytes=costs.ELEMENT_BYTES[dtype],
            table_entries=batch * (capacity // page_size),
        ),
    )


WORKLOADS = (
    workload("cuda", "fp16", batch=16, tokens=2048, capacity=3072, page_size=16),  # 268 MB: the end of a prefill
    workload("cuda", "fp16", batch=16, tokens=2048, capacity=3072),
    workload("cuda", "bf16", batch=16, tokens=2048, capacity=3072),
    workload("cuda", "fp32", batch=8, tokens=2048, capacity=3072, page_size=256),
    workload("cuda", "fp16", batch=64, tokens=1, capacity=256),  # a decode step of 64 sequences
    workload("cuda", "fp16", batch=1, tokens=1, capacity=4096),
    workload("cpu", "fp32", batch=2, tokens=64, capacity=128, page_size=16),
)
