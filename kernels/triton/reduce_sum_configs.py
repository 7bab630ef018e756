"""How the Triton reduce_sum is cut: a frozen choice per shape, so that a recorded number always means the same code."""

from __future__ import annotations

from dataclasses import dataclass

import triton


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceSumConfig:
    """One way to launch `_reduce_sum`."""

    block_outer: int  # rows of one program, where inner is 1
    block_reduced: int
    block_inner: int
    splits: int  # parts of each sum
    num_warps: int


_TILE = 4096  # elements that a program loads at once: 32 of each of 128 threads
_PROGRAMS = 4096  # that keep a large GPU busy to the end; below an eighth of it each sum is cut into parts


def reduce_sum_config(outer: int, reduced: int, inner: int) -> ReduceSumConfig:
    """The config of tracked runs for this shape. Reasoned, not yet tuned on any chip."""
    block_inner = min(triton.next_power_of_2(inner), 128)
    block_reduced = min(triton.next_power_of_2(reduced), _TILE // block_inner)
    block_outer = min(triton.next_power_of_2(outer), _TILE // block_reduced) if inner == 1 else 1
    programs = triton.cdiv(outer, block_outer) * triton.cdiv(inner, block_inner)
    splits = 1
    if programs < _PROGRAMS // 8:
        splits = max(1, min(_PROGRAMS // programs, reduced // (4 * block_reduced)))
    return ReduceSumConfig(
        block_outer=block_outer, block_reduced=block_reduced, block_inner=block_inner, splits=splits, num_warps=4
    )
