"""How the Triton int4_linear is cut: a frozen choice per shape, so a recorded number always means the same code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4LinearConfig:
    """One way to launch `_int4_linear`."""

    block_rows: int  # rows of x of one program
    block_outputs: int
    splits: int  # programs that divide K between them
    num_warps: int
    num_stages: int  # groups of K in flight


# Reasoned, not yet tuned on any chip. Few rows: narrow blocks of outputs, so that each of some 132 multiprocessors gets
# about four programs, whose loads hide the latency of memory. Many rows: wide blocks, since all of x passes through
# each of them.
_FEW_ROWS, _SOME_ROWS = 16, 64
_WANTED_PROGRAMS = 512


def int4_linear_config(*, rows: int, outputs: int, groups: int) -> Int4LinearConfig:
    """The config of tracked runs for x of `rows` rows, `outputs` outputs and `groups` groups in K."""
    if rows <= _FEW_ROWS:
        return Int4LinearConfig(
            block_rows=16, block_outputs=32, splits=_splits(outputs, 32, groups), num_warps=2, num_stages=4
        )
    if rows <= _SOME_ROWS:
        block_rows = 32 if rows <= 32 else 64
        return Int4LinearConfig(
            block_rows=block_rows, block_outputs=64, splits=_splits(outputs, 64, groups), num_warps=4, num_stages=3
        )
    return Int4LinearConfig(block_rows=64, block_outputs=128, splits=1, num_warps=8, num_stages=3)


def _splits(outputs: int, block_outputs: int, groups: int) -> int:
    # A part of K is at least four groups long: below that, starting it and adding it up cost more than it brings.
    blocks = max(1, -(-outputs // block_outputs))
    return max(1, min(_WANTED_PROGRAMS // blocks, groups // 4))
