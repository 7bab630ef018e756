"""Workloads of flash_attention_backward, the gradients of attention: compute-bound."""

from dataclasses import replace

from warpbench.workload import Workload

from .. import costs
from . import flash_attention

# Weights, ds and the gradients are rounded to the dtype, and so is the output that delta comes from.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 2e-5}
_IMPLEMENTATIONS = {
    "cuda": ("warpwatch", "triton", "sdpa", "sdpa_flash", "eager"),
    "cpu": ("warpwatch", "eager"),
}


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
    window: int | None = None,  # keys that a query sees at most, with causal
) -> Workload:
    """The gradients of scaled dot-product attention of one shape.

    Raises ValueError for heads that do not share key heads evenly, and for a window without a causal mask.
    """
    forward = flash_attention.workload(
        device,
        dtype,
        batch=batch,
        heads=heads,
        heads_kv=heads_kv,
        seq_len=seq_len,
        seq_len_kv=seq_len_kv,
        head_dim=head_dim,
        causal=causal,
        window=window,
    )
    shape = forward.parameters
    return replace(
        forward,
        operator="flash_attention_backward",
        cost=costs.flash_attention_backward(
            batch=batch,
            heads_q=shape["heads_q"],
            heads_kv=shape["heads_kv"],
            seq_q=shape["seq_q"],
            seq_kv=shape["seq_kv"],
            head_dim=head_dim,
            causal=causal,
            window=window,
            element_bytes=costs.ELEMENT_BYTES[dtype],
        ),
        implementations=tuple(
            name for name in _IMPLEMENTATIONS[device] if not (name == "sdpa_flash" and dtype == "fp32")
        ),  # FlashAttention-2 takes fp16 and bf16 alone
        tolerance=_TOLERANCE[dtype],
    )


WORKLOADS = (
    workload("cuda", "fp16", batch=16, heads=32, seq_len=512, head_dim=64, causal=True),
    workload("cuda", "fp16", batch=16, heads=32, seq_len=512, head_dim=64, causal=False),
    workload("cuda", "fp16", heads=32, seq_len=2048, head_dim=64, causal=True),
    workload("cuda", "fp16", heads=32, seq_len=2048, head_dim=96, causal=True),
    workload("cuda", "fp16", heads=32, seq_len=2048, causal=True),
    workload("cuda", "bf16", heads=32, seq_len=2048, causal=True),
    workload("cuda", "fp16", heads=32, seq_len=2048, causal=False),
    workload("cuda", "fp16", heads=32, heads_kv=8, seq_len=2048, causal=True),
    workload("cuda", "fp16", heads=32, seq_len=4096, causal=True),
    workload("cuda", "fp16", heads=16, seq_len=2048, head_dim=256, causal=True),
    # Not 8192 as of the forward pass: eager would take gigabytes a step, for which PyTorch's allocator waits for the
    # GPU, while NVBench holds that back until all is launched.
    workload("cuda", "fp16", heads=32, heads_kv=8, seq_len=4096, causal=True, window=1024),
    workload("cuda", "fp32", heads=16, seq_len=1024, head_dim=64, causal=True),
    workload("cuda", "fp32", heads=32, seq_len=1024, causal=True),
    workload("cpu", "fp32", heads=4, seq_len=128, head_dim=64, causal=True),
)
