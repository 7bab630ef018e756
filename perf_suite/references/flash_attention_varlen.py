"""Reference of attention over packed sequences."""

import itertools

import torch

from .flash_attention import flash_attention


def flash_attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths_q: tuple[int, ...],
    lengths_kv: tuple[int, ...],
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
) -> torch.Tensor:
    """flash_attention of each sequence by itself, in float64; q (total_q, heads_q, head_dim), k and v likewise."""
    out = torch.zeros(q.shape, dtype=torch.float64, device=q.device)
    ends_q = [0, *itertools.accumulate(lengths_q)]
    ends_kv = [0, *itertools.accumulate(lengths_kv)]
    for b in range(len(lengths_q)):
        rows, seen = slice(ends_q[b], ends_q[b + 1]), slice(ends_kv[b], ends_kv[b + 1])
        queries, keys, values = (x.transpose(0, 1)[None] for x in (q[rows], k[seen], v[seen]))
        out[rows] = flash_attention(queries, keys, values, causal, scale, window)[0].transpose(0, 1)
    return out
