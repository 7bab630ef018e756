"""Split-KV of a decode step: the grid, the workspace of the parts, and their combination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton

MOST_SPLITS = 64
_PROGRAMS = 264  # two per SM of an H200 (132 SMs)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeAttentionConfig:
    """One way to launch `_decode_attention`."""

    block_rows: int  # packed queries per program; tl.dot needs 16
    block_kv: int  # keys per step
    splits: int  # splits of the keys, one program each
    num_warps: int
    num_stages: int  # tiles of keys and values in flight


def decode_attention_config(*, key_heads: int, rows: int, keys: int, row_bytes: int) -> DecodeAttentionConfig:
    """Config of tracked runs.

    key_heads is batch * heads_kv, rows the queries that share a key head, keys the most per sequence, row_bytes the
    size of one key. Reasoned, not tuned on any chip yet: a step's keys and values take at most 16 KiB, so that three
    stages fit the 64 KiB of sm_75, and there are enough splits to give an H200 two programs per SM.
    """
    block_rows = 16 if rows <= 16 else 32
    blocks = max(key_heads * -(-rows // block_rows), 1)
    splits = max(min(_PROGRAMS // blocks, keys // 128, MOST_SPLITS), 1)
    return DecodeAttentionConfig(
        block_rows=block_rows,
        block_kv=max(min(8192 // (1 << (row_bytes - 1).bit_length()), 64), 16),  # a power of two, as Triton requires
        splits=splits,
        num_warps=4,
        num_stages=2,
    )


MOST_TOKENS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The output, and where each split writes: directly to it if there is one split, else a part in float32."""

    config: DecodeAttentionConfig
    out: torch.Tensor
    parts: torch.Tensor
    max_and_sum: torch.Tensor  # (2, splits, rows): each part's maximum and sum
    rows: int  # all queries and heads
    row_blocks: int  # row blocks per key head
    grid: tuple[int, int]

    @property
    def whole(self) -> bool:
        """Whether a single split has all keys."""
        return self.config.splits == 1

    def combine(self, function: Any, scale_log2: float) -> None:
        """Combine the parts, if there are several, with the twin's own `_combine_parts`.

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
    """Keys per sequence for which the work is divided: max_length, or capacity if it is not given.

    Raises RuntimeError for a max_length without lengths, or outside 0 .. capacity.
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
    """Choose splits from shapes alone; out has q's size, keys is the most per sequence, row_bytes one key's size."""
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
