"""How a decode step's work is cut: which programs there are, where each puts its part, and the parts put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton

from .decode_attention_configs import DecodeAttentionConfig, decode_attention_config

MOST_TOKENS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The output, and what each split of the keys puts where: itself, if it is the only one, or a part in float32."""

    config: DecodeAttentionConfig
    out: torch.Tensor
    parts: torch.Tensor
    max_and_sum: torch.Tensor  # (2, splits, rows): of each part's scores and weights
    rows: int  # of all queries and heads
    row_blocks: int  # of those that share a key head
    grid: tuple[int, int]

    @property
    def whole(self) -> bool:
        """One split has all keys."""
        return self.config.splits == 1

    def combine(self, function: Any, scale_log2: float) -> None:
        """Put the parts together, where there are several, by the twin's own name for _combine_parts.

        scale_log2 turns the parts' maxima into exponents of 2.
        """
        if self.whole:
            return
        head_dim = self.out.shape[3]
        function[(self.rows,)](
            self.parts,
            self.max_and_sum,
            self.out,
            self.config.splits,
            self.rows,
            head_dim,
            scale_log2,
            BLOCK_SPLITS=triton.next_power_of_2(self.config.splits),
            BLOCK_DIM=triton.next_power_of_2(head_dim),
            num_warps=4,
        )


def most_keys(operator: str, max_length: int | None, lengths: torch.Tensor | None, capacity: int) -> int:
    """For how many keys of a sequence work is divided: max_length, or capacity where nobody knows it.

    Raises RuntimeError for a max_length without lengths, or beyond 0 .. capacity.
    """
    if max_length is None:
        return capacity
    if lengths is None:
        raise RuntimeError(
            f"{operator}: max_length bounds lengths, and there are none; leave it out, or pass lengths too"
        )
    if not 0 <= max_length <= capacity:
        raise RuntimeError(
            f"{operator}: max_length must be from 0 to {capacity}, the keys that a sequence has room for, "
            f"got {max_length}"
        )
    return max_length


def split_keys(q: torch.Tensor, out: torch.Tensor, *, heads_kv: int, keys: int, row_bytes: int) -> Split:
    """By shapes alone; out is q's size, keys a sequence's at most, row_bytes what a key takes in memory."""
    batch, heads_q, seq_q, head_dim = q.shape
    shared = heads_q // heads_kv * seq_q
    config = decode_attention_config(key_heads=batch * heads_kv, rows=shared, keys=keys, row_bytes=row_bytes)
    whole = config.splits == 1
    rows = batch * heads_q * seq_q
    row_blocks = triton.cdiv(shared, config.block_rows)
    return Split(
        config=config,
        out=out,
        parts=out if whole else q.new_empty((config.splits, rows, head_dim), dtype=torch.float32),
        max_and_sum=out if whole else q.new_empty((2, config.splits, rows), dtype=torch.float32),
        rows=rows,
        row_blocks=row_blocks,
        grid=(batch * heads_kv * row_blocks, config.splits),
    )
