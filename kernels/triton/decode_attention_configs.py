"""How the Triton decode_attention is cut: a frozen choice by shape."""

from __future__ import annotations

from dataclasses import dataclass

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
