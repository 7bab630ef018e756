"""Workloads of flash_attention, forward: compute-bound."""

from dataclasses import replace

from warpbench.workload import Workload

from .. import costs
from ..language_models import GPT_2, LLAMA_2_13B, LLAMA_2_70B, LLAMA_3_8B

# Softmax weights and results are rounded to fp16, about 3e-4 each (bf16: eight times that); fp32 sums over the keys
# reach 1e-6.
TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}
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
    seq_len: int,
    seq_len_kv: int | None = None,  # as long as seq_len
    head_dim: int = 128,
    causal: bool = False,
    window: int | None = None,  # keys that a query sees at most, with causal
    biases: int = 0,  # matrices (seq_len, seq_len_kv) of a bias: one for each head or one for all
) -> Workload:
    """Scaled dot-product attention of one shape.

    Raises ValueError for heads that do not share key heads evenly, for a window without a causal mask, and for biases
    that are neither one nor one a head.
    """
    heads_kv = heads if heads_kv is None else heads_kv
    seq_len_kv = seq_len if seq_len_kv is None else seq_len_kv
    if heads % heads_kv:
        raise ValueError(f"heads ({heads}) must be a multiple of heads_kv ({heads_kv})")
    if window is not None and not causal:
        raise ValueError("a window needs the causal mask")
    if biases not in (0, 1, heads):
        raise ValueError(f"biases ({biases}) must be 0, 1 or heads ({heads})")
    grouped = f"-kv{heads_kv}" if heads_kv != heads else ""
    lengths = f"{seq_len}" if seq_len_kv == seq_len else f"{seq_len}x{seq_len_kv}"
    mask = "full" if not causal else "causal" if window is None else f"causal-window{window}"
    biased = f"-bias{biases}" if biases else ""
    return Workload(
        operator="flash_attention",
        name=f"{device}-{dtype}-b{batch}-h{heads}{grouped}-s{lengths}-d{head_dim}-{mask}{biased}",
        device=device,
        dtype=dtype,
        parameters={
            "batch": batch,
            "heads_q": heads,
            "heads_kv": heads_kv,
            "seq_q": seq_len,
            "seq_kv": seq_len_kv,
            "head_dim": head_dim,
            "causal": causal,
            **({} if window is None else {"window": window}),
            **({"biases": biases} if biases else {}),
        },
        cost=costs.flash_attention(
            batch=batch,
            heads_q=heads,
            heads_kv=heads_kv,
            seq_q=seq_len,
            seq_kv=seq_len_kv,
            head_dim=head_dim,
            causal=causal,
            window=window,
            biases=biases,
            element_bytes=costs.ELEMENT_BYTES[dtype],
        ),
        implementations=_IMPLEMENTATIONS[device],
        tolerance=TOLERANCE[dtype],
    )


WORKLOADS = (
    workload("cuda", "fp16", batch=16, heads=32, seq_len=512, head_dim=64, causal=False),
    workload("cuda", "fp16", batch=16, heads=32, seq_len=512, head_dim=64, causal=True),
    workload("cuda", "fp16", batch=1, **GPT_2.attention_heads, seq_len=1024, causal=True),
    workload("cuda", "fp16", batch=8, **GPT_2.attention_heads, seq_len=1024, causal=True),
    workload("cuda", "fp16", heads=32, seq_len=512, head_dim=128, causal=True),
    workload("cuda", "fp16", heads=32, seq_len=1024, head_dim=128, causal=True),
    workload("cuda", "fp16", heads=32, seq_len=1024, head_dim=128, causal=False),
    replace(
        workload("cuda", "fp16", heads=32, seq_len=2048, head_dim=128, causal=True), energy_of=("warpwatch", "sdpa")
    ),
    workload("cuda", "bf16", heads=32, seq_len=2048, head_dim=128, causal=True),
    workload("cuda", "fp16", heads=32, seq_len=4096, head_dim=128, causal=True),
    workload("cuda", "fp16", heads=32, seq_len=2048, head_dim=64, causal=True),
    workload("cuda", "fp16", heads=32, seq_len=2048, head_dim=96, causal=True),
    workload("cuda", "fp16", heads=16, seq_len=2048, head_dim=256, causal=True),
    workload("cuda", "fp16", heads=32, heads_kv=8, seq_len=8192, causal=True, window=1024),
    workload("cuda", "fp16", batch=4, heads=32, seq_len=1024, causal=False, biases=32),
    workload("cuda", "fp16", heads=8, seq_len=16384, causal=True),
    workload("cuda", "fp32", heads=16, seq_len=1024, head_dim=64, causal=True),
    workload("cuda", "fp32", heads=32, seq_len=1024, causal=True),
    workload("cuda", "fp32", heads=32, seq_len=2048, causal=False),
    workload("cuda", "fp16", **LLAMA_2_13B.attention_heads, seq_len=2048, causal=True),
    workload("cuda", "fp16", **LLAMA_2_70B.attention_heads, seq_len=2048, causal=True),
    workload("cuda", "fp16", **LLAMA_3_8B.attention_heads, seq_len=2048, causal=True),
    workload("cuda", "fp16", batch=4, **LLAMA_3_8B.attention_heads, seq_len=1024, causal=True),
    workload(
        "cuda", "fp16", batch=8, **LLAMA_3_8B.attention_heads, seq_len=1, seq_len_kv=4096, causal=False
    ),  # a decode step
    workload("cpu", "fp32", heads=4, seq_len=128, head_dim=64, causal=True),
    workload("cpu", "fp32", heads=8, heads_kv=2, seq_len=128, head_dim=64, causal=False),
    workload("cpu", "fp32", heads=4, seq_len=256, head_dim=64, causal=True, window=32),
    workload("cpu", "fp32", heads=4, seq_len=128, head_dim=64, causal=False, biases=4),
)
