"""How the Triton linear layers are cut: a frozen choice per shape, so that a number always means the same code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearActivationConfig:
    """One way to launch `_linear_activation` or `_swiglu`."""

    block_rows: int
    block_outputs: int
    block_depth: int
    num_warps: int
    num_stages: int


def linear_activation_config(*, rows: int, weights: int, element_bytes: int) -> LinearActivationConfig:
    """The config of tracked runs for x of `rows` rows and 1 or 2 weights. Reasoned, not yet tuned on any chip.

    Three stages of a block's x and weights stay within the 99 KB of an RTX, and for few rows within the 64 KB of a T4.
    """
    depth = 64 if element_bytes == 2 else 32
    if rows <= 64:
        return LinearActivationConfig(
            block_rows=16 if rows <= 16 else 64,
            block_outputs=64 // weights,
            block_depth=depth,
            num_warps=4,
            num_stages=3,
        )
    return LinearActivationConfig(
        block_rows=64, block_outputs=128 // weights, block_depth=depth, num_warps=4, num_stages=3
    )
