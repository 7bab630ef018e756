"""How a decode step's work is cut: which programs there are, where each puts its part, and the parts put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton

MOST_SPLITS = 64
_PROGRAMS = 264  # two on each of an H200's 132 multiprocessors


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeAttentionConfig:
    """One way to launch `_decode_attention`."""

    block_rows: int  # packed queries of one program; tl.dot wants 16
    block_kv: int  # keys of one step
    splits: int  # parts of the keys, one program each
    num_warps: int
    num_stages: int  # tiles of keys and values in flight


def decode_attention_config(*, key_heads: int, rows: int, keys: int, row_bytes: int) -> DecodeAttentionConfig:
    """The config of tracked runs.

    key_heads is batch * heads_kv, rows the queries that share a key head, keys a sequence's at most, row_bytes those of
    one key. Reasoned, not yet
    tuned on any chip: a step's keys and values take 16 KiB at most, so that three are in flight within the 64 KiB of
    sm_75, and there are as many parts as give an H200 two programs a multiprocessor.
    """
    block_rows = 16 if rows <= 16 else 32
    blocks = max(key_heads * -(-rows // block_rows), 1)
    splits = max(min(_PROGRAMS // blocks, keys // 128, MOST_SPLITS), 1)
    return DecodeAttentionConfig(
        block_rows=block_rows,
        block_kv=max(min(8192 // (1 << (row_bytes - 1).bit_length()), 64), 16),  # a power of two, as in Triton
        splits=splits,
        num_warps=4,
        num_stages=2,
    )


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
