"""tiled_attention, the second step of the attention ladder: tiles in shared memory, without tensor cores."""

from __future__ import annotations

from ..compiled.watched_kernels import Watched
from . import flash_attention
from .naive_attention import LADDER_CASES, case


class TiledAttention(flash_attention.FlashAttention):
    """flash_attention's formula and baselines, with the kernels tiled_attention."""

    watched = Watched(
        kernels=("tiled_attention_kernel",),
        twins=("_tiled_attention",),
        sources=("attention_ladder/tiled_attention.cu",),
    )
    case = staticmethod(case)
    cases = LADDER_CASES
