"""naive_attention, the first step of the attention ladder: the scores go through memory."""

from __future__ import annotations

from warpbench import Case

from ..compiled.watched_kernels import Watched
from . import flash_attention


def case(
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
) -> Case:
    """flash_attention's case without window and bias. Raises ValueError for heads that share key heads unevenly.

    The cost is flash_attention's too: a step of the ladder that moves more bytes shows as slower.
    """
    return flash_attention.case(
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


# Small enough for the naive kernel; the same for both steps before flash_attention, which compares them.
LADDER_CASES = (
    case("cuda", "fp16", batch=1, heads=12, seq_len=1024, head_dim=64, causal=True),
    case("cuda", "fp16", heads=32, seq_len=512, head_dim=128, causal=True),
    case("cuda", "fp16", heads=32, seq_len=1024, head_dim=128, causal=True),
    case("cpu", "fp32", heads=4, seq_len=128, head_dim=64, causal=True),
)


class NaiveAttention(flash_attention.FlashAttention):
    """flash_attention's formula and baselines, with the kernels naive_attention."""

    watched = Watched(
        kernels=("naive_attention_kernel",),
        twins=("_naive_attention",),
        sources=("attention_ladder/naive_attention.cu",),
    )
    case = staticmethod(case)
    cases = LADDER_CASES
