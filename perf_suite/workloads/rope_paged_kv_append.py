"""Workloads of rope_paged_kv_append: paged_kv_append's, whose keys turn on their way."""

from dataclasses import replace

from warpbench.workload import Workload

from .. import costs
from ..language_models import LLAMA_3_8B
from . import paged_kv_append

# Of a cache whose new keys alone are rounded, to fp16 by 2.8e-4 and to bf16 by eight times that; the rest is copied.
_TOLERANCE = {"fp16": 1e-3, "bf16": 8e-3, "fp32": 1e-6}
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "unfused", "eager", "torch_compile"),
    "cpu": ("warpwatch", "unfused", "eager"),
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
    page_size: int = 64,
    interleaved: bool = False,
    computed: bool = False,  # angles from positions, and not from tables
) -> Workload:
    """All sequences at one position where angles come from tables, each at its own where they are computed.

    Raises ValueError as paged_kv_append's does, and for an odd head_dim.
    """
    if head_dim % 2:
        raise ValueError(f"head_dim ({head_dim}) must be even, for its elements turn in pairs")
    row = paged_kv_append.workload(
        device,
        dtype,
        batch=batch,
        heads=heads,
        tokens=tokens,
        capacity=capacity,
        head_dim=head_dim,
        page_size=page_size,
    )
    layout = ("-interleaved" if interleaved else "") + ("-computed" if computed else "")
    return replace(
        row,
        operator="rope_paged_kv_append",
        name=row.name + layout,
        parameters={
            **row.parameters,
            "interleaved": interleaved,
            **({"computed": True} if computed else {}),
        },
        cost=costs.rope_paged_kv_append(
            batch=batch,
            heads=heads,
            tokens=tokens,
            head_dim=head_dim,
            element_bytes=costs.ELEMENT_BYTES[dtype],
            table_entries=batch * (capacity // page_size),
            computed=computed,
        ),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=_TOLERANCE[dtype],
    )


WORKLOADS = (
    workload("cuda", "fp16", batch=16, tokens=2048, capacity=3072),  # 268 MB: the end of a prefill
    workload("cuda", "fp16", batch=16, tokens=2048, capacity=3072, computed=True),
    workload("cuda", "bf16", batch=1, tokens=2048, capacity=4096, interleaved=True),
    workload("cuda", "fp16", batch=64, tokens=1, capacity=256, computed=True),  # a decode step of 64 sequences
    workload("cuda", "fp16", batch=1, tokens=1, capacity=4096),
    workload("cpu", "fp32", batch=2, tokens=64, capacity=128, page_size=16),
)
