"""Workloads of tiled_attention, a step of the ladder: some of flash_attention's, small enough for it."""

from warpbench.workload import Workload

from . import flash_attention
from .attention_ladder import ladder_workload


def workload(
    device: str,
    dtype: str,
    *,
    batch: int = 1,
    heads: int = 32,
    heads_kv: int | None = None,  # as many as heads
    seq_len: int,
    seq_len_kv: int | None = None,  # as long as seq_len
    head_dim: int = 128,
    causal: bool = False,
) -> Workload:
    """Scaled dot-product attention of one shape. Raises ValueError for heads that do not share key heads evenly."""
    row = flash_attention.workload(
        device,
        dtype,
        batch=batch,
        heads=heads,
        heads_kv=heads_kv,
        seq_len=seq_len,
        seq_len_kv=seq_len_kv,
        head_dim=head_dim,
        causal=causal,
    )
    return ladder_workload("tiled_attention", row)


WORKLOADS = (
    workload("cuda", "fp16", batch=1, heads=12, seq_len=1024, head_dim=64, causal=True),
    workload("cuda", "fp16", heads=32, seq_len=512, head_dim=128, causal=True),
    workload("cuda", "fp16", heads=32, seq_len=1024, head_dim=128, causal=True),
    workload("cpu", "fp32", heads=4, seq_len=128, head_dim=64, causal=True),
)
