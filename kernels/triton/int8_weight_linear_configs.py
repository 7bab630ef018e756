"""How the Triton int8_weight_linear is cut: a frozen choice per shape, so that a number always means the same code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8WeightLinearConfig:
    """One way to launch `_int8_weight_linear`."""

    block_rows: int
    block_outputs: int
    block_depth: int
    num_warps: int
    num_stages: int


def int8_weight_linear_config(*, rows: int) -> Int8WeightLinearConfig:
    """The config of tracked runs for x of `rows` rows. Reasoned, not yet tuned on any chip."""
    if rows <= 16:
        return Int8WeightLinearConfig(block_rows=16, block_outputs=32, block_depth=128, num_warps=4, num_stages=4)
    if rows <= 64:
        return Int8WeightLinearConfig(block_rows=64, block_outputs=64, block_depth=64, num_warps=4, num_stages=4)
    return Int8WeightLinearConfig(block_rows=128, block_outputs=128, block_depth=64, num_warps=8, num_stages=3)
