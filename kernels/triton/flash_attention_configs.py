"""How the Triton flash_attention is cut: a frozen choice per chip, head_dim and width of the dtype."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashAttentionConfig:
    """One way to launch `_flash_attention`."""

    block_q: int  # queries of one program
    block_kv: int  # keys of one step
    num_warps: int
    num_stages: int  # tiles of keys and values in flight


def _config(block_q: int, block_kv: int, num_warps: int, num_stages: int) -> FlashAttentionConfig:
    return FlashAttentionConfig(block_q=block_q, block_kv=block_kv, num_warps=num_warps, num_stages=num_stages)


# Compute capability, then head_dim; a GPU takes the row of the newest chip that is not newer than itself. Reasoned from
# shared memory (64, 164, 100 and 227 KB a block at most), not yet tuned on any chip.
_BY_CHIP_16_BIT = {
    75: {64: _config(64, 64, 4, 1), 128: _config(64, 32, 4, 1), 256: _config(32, 32, 4, 1)},
    80: {64: _config(128, 64, 4, 3), 128: _config(128, 64, 8, 3)},
    86: {64: _config(128, 64, 4, 2), 128: _config(64, 64, 4, 2)},
    90: {64: _config(128, 128, 8, 3), 128: _config(128, 128, 8, 2)},
    120: {64: _config(128, 64, 4, 2), 128: _config(64, 64, 4, 2)},
}
_OTHER_HEAD_DIM_16_BIT = _config(64, 32, 4, 1)
_32_BIT = {64: _config(64, 32, 4, 2), 128: _config(32, 32, 4, 1)}
_OTHER_HEAD_DIM_32_BIT = _config(16, 16, 4, 1)


def flash_attention_config(compute_capability: int, head_dim: int, element_bytes: int) -> FlashAttentionConfig:
    """The config of tracked runs; compute_capability is 10 * major + minor.

    head_dim 96 lies in a block of 128 and is cut like it. Raises ValueError for a GPU older than all of the table's.
    """
    head_dim = 128 if head_dim == 96 else head_dim
    if element_bytes == 4:
        return _32_BIT.get(head_dim, _OTHER_HEAD_DIM_32_BIT)
    chips = [chip for chip in _BY_CHIP_16_BIT if chip <= compute_capability]
    if not chips:
        raise ValueError(f"no config for compute capability {compute_capability}; the oldest is {min(_BY_CHIP_16_BIT)}")
    return _BY_CHIP_16_BIT[max(chips)].get(head_dim, _OTHER_HEAD_DIM_16_BIT)
