"""How the Triton rope is cut: a frozen choice per head_dim, so that a recorded number always means the same code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeConfig:
    """One way to launch `_rope`."""

    block_seq: int  # positions of one program
    heads: int  # heads that share one reading of cos and sin
    num_warps: int


# Reasoned, not yet tuned on any chip: some 4096 elements of x per head and program, that is two loads of 16 bytes in
# flight for each of 128 threads at two bytes an element, times four heads.
_BY_HEAD_DIM = {
    64: RopeConfig(block_seq=64, heads=4, num_warps=4),
    128: RopeConfig(block_seq=32, heads=4, num_warps=4),
    256: RopeConfig(block_seq=16, heads=4, num_warps=4),
}
_OTHERWISE = RopeConfig(block_seq=16, heads=2, num_warps=4)


def rope_config(head_dim: int) -> RopeConfig:
    """The config of tracked runs for this head_dim."""
    return _BY_HEAD_DIM.get(head_dim, _OTHERWISE)
