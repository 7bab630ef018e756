"""How the Triton int8_linear is cut: a frozen choice per shape, so a recorded number always means the same code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8LinearConfig:
    """One way to launch `_int8_linear`."""

    block_rows: int
    block_outputs: int
    block_depth: int
    num_warps: int
    num_stages: int


# Reasoned, not yet tuned on any chip. Few rows: narrow blocks of outputs, so that there are some hundred programs to
# read the weights. Many rows: wide ones, since all of x passes through each block of outputs. Three stages of 32 KB are
# what 99 KB of shared memory hold.
def int8_linear_config(*, rows: int, outputs: int) -> Int8LinearConfig:
    """The config of tracked runs for x of `rows` rows and `outputs` outputs."""
    if rows <= 16:
        return Int8LinearConfig(block_rows=16, block_outputs=32, block_depth=256, num_warps=4, num_stages=4)
    if rows <= 64:
        return Int8LinearConfig(block_rows=64, block_outputs=32, block_depth=128, num_warps=4, num_stages=4)
    if rows <= 256 and outputs <= 8192:
        return Int8LinearConfig(block_rows=64, block_outputs=64, block_depth=128, num_warps=4, num_stages=4)
    return Int8LinearConfig(block_rows=128, block_outputs=128, block_depth=128, num_warps=8, num_stages=3)
