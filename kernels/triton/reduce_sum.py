"""Sums in Triton; the formula is in csrc/reduce_sum/reduce_sum.h."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceSumConfig:
    """One way to launch `_reduce_sum`."""

    block_outer: int  # rows per program, if inner is 1
    block_reduced: int
    block_inner: int
    splits: int  # parts of each sum
    num_warps: int


_TILE = 4096  # elements that a program loads at once: 32 for each of 128 threads
_PROGRAMS = 4096  # keeps a large GPU busy to the end; with fewer than an eighth, each sum is split


def reduce_sum_config(outer: int, reduced: int, inner: int) -> ReduceSumConfig:
    """Config of tracked runs for this shape. Reasoned, not tuned on any chip yet."""
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


def reduce_sum(x: torch.Tensor, dim: int | Sequence[int] | None = None, *, keepdim: bool = False) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.reduce_sum, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1).

    If the dimensions are not adjacent in memory, x is copied with them last.
    """
    axes = range(x.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    summed = sorted(axis % max(x.dim(), 1) for axis in axes)
    if len(set(summed)) != len(summed):
        raise RuntimeError(f"triton reduce_sum: dim names a dimension twice: {list(axes)}")
    kept = [axis for axis in range(x.dim()) if axis not in summed]
    sizes = [1 if axis in summed else size for axis, size in enumerate(x.shape) if keepdim or axis in kept]
    neighbours = all(b - a == 1 for a, b in itertools.pairwise(summed))
    if not neighbours:
        x = x.permute(*kept, *summed)
        summed = list(range(len(kept), x.dim()))
    x = x.contiguous()
    first, last = (summed[0], summed[-1] + 1) if summed else (0, 0)
    outer, reduced, inner = (math.prod(part) for part in (x.shape[:first], x.shape[first:last], x.shape[last:]))
    out = x.new_empty(sizes)
    if out.numel() == 0:
        return out
    if x.numel() == 0:
        return out.zero_()
    config = reduce_sum_config(outer, reduced, inner)
    if config.splits > 1:
        parts = x.new_empty((outer, config.splits, inner), dtype=torch.float32)
        _launch(x, parts, outer, reduced, inner, config.splits)
        x, reduced = parts, config.splits
    _launch(x, out, outer, reduced, inner, 1)
    return out


def _launch(x: torch.Tensor, out: torch.Tensor, outer: int, reduced: int, inner: int, splits: int) -> None:
    config = reduce_sum_config(outer, reduced, inner)
    inner_blocks = triton.cdiv(inner, config.block_inner)
    outer_blocks = triton.cdiv(outer, config.block_outer)
    part = triton.cdiv(triton.cdiv(reduced, splits), config.block_reduced) * config.block_reduced
    with torch.cuda.device_of(x):  # Triton launches on the current device
        _reduce_sum[(outer_blocks * splits * inner_blocks,)](
            x,
            out,
            outer,
            reduced,
            inner,
            part,
            splits,
            inner_blocks,
            BLOCK_OUTER=config.block_outer,
            BLOCK_REDUCED=config.block_reduced,
            BLOCK_INNER=config.block_inner,
            num_warps=config.num_warps,
        )


@triton.jit
def _reduce_sum(
    x_ptr,
    out_ptr,
    n_outer,
    n_reduced,
    n_inner,
    n_part,
    n_splits,
    n_inner_blocks,
    BLOCK_OUTER: tl.constexpr,
    BLOCK_REDUCED: tl.constexpr,
    BLOCK_INNER: tl.constexpr,
):
    """out[o, split, i] = sum over the split's r of x[o, r, i]; one program per outer block, split and inner block.

    Either BLOCK_OUTER is 1, or n_inner and BLOCK_INNER are: a tile's first dimension holds outer rows or nothing.
    """
    block = tl.program_id(0)
    inner = (block % n_inner_blocks).to(tl.int64) * BLOCK_INNER + tl.arange(0, BLOCK_INNER)
    split = (block // n_inner_blocks % n_splits).to(tl.int64)
    outer = (block // n_inner_blocks // n_splits).to(tl.int64) * BLOCK_OUTER + tl.arange(0, BLOCK_OUTER)
    begin = split * n_part
    end = tl.minimum(begin + n_part, n_reduced)
    rows = x_ptr + outer[:, None, None] * n_reduced * n_inner + inner[None, None, :]
    live = (outer < n_outer)[:, None, None] & (inner < n_inner)[None, None, :]
    sums = tl.zeros((BLOCK_OUTER, BLOCK_REDUCED, BLOCK_INNER), dtype=tl.float32)
    for first in range(begin, end, BLOCK_REDUCED):
        row = first + tl.arange(0, BLOCK_REDUCED).to(tl.int64)[None, :, None]
        sums += tl.load(rows + row * n_inner, mask=live & (row < end), other=0.0).to(tl.float32)
    total = tl.sum(sums, axis=1)
    at = (outer[:, None] * n_splits + split) * n_inner + inner[None, :]
    tl.store(out_ptr + at, total, mask=(outer < n_outer)[:, None] & (inner < n_inner)[None, :])
