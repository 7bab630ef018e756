"""How the Triton flash_attention_backward is cut: a frozen choice per chip, head_dim and width of the dtype."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashAttentionBackwardConfig:
    """One way to launch `_flash_attention_dq` and `_flash_attention_dkdv`."""

    owned: int  # queries of one program of the first, keys of one of the second
    step: int  # of the others, in one step
    num_warps: int
    num_stages: int  # tiles of a step in flight


def _config(owned: int, step: int, num_warps: int, num_stages: int) -> FlashAttentionBackwardConfig:
    return FlashAttentionBackwardConfig(owned=owned, step=step, num_warps=num_warps, num_stages=num_stages)


# Compute capability, then head_dim; a GPU takes the row of the newest chip that is not newer than itself. Reasoned from
# shared memory (64, 164, 100 and 227 KB a block at most) and registers, not yet tuned on any chip.
_BY_CHIP_16_BIT = {
    75: {64: _config(64, 32, 4, 1), 128: _config(32, 32, 4, 1), 256: _config(16, 16, 4, 1)},
    80: {64: _config(64, 64, 4, 2), 128: _config(64, 32, 4, 2)},
    86: {64: _config(64, 64, 4, 2), 128: _config(64, 32, 4, 1)},
    90: {64: _config(128, 64, 8, 2), 128: _config(64, 64, 4, 2), 256: _config(64, 32, 8, 2)},
    120: {64: _config(64, 64, 4, 2), 128: _config(64, 32, 4, 1)},
}
_OTHER_HEAD_DIM_16_BIT = _config(32, 32, 4, 1)
_BY_CHIP_32_BIT = {
    75: {64: _config(32, 32, 4, 1), 128: _config(16, 16, 4, 1), 256: _config(8, 16, 4, 1)},
    80: {64: _config(32, 32, 4, 1), 128: _config(16, 16, 4, 1)},
}
_OTHER_HEAD_DIM_32_BIT = _config(16, 16, 4, 1)


def flash_attention_backward_config(
    compute_capability: int, head_dim: int, element_bytes: int
) -> FlashAttentionBackwardConfig:
    """The config of tracked runs; compute_capability is 10 * major + minor.

    head_dim 96 lies in a block of 128 and is cut like it. Raises ValueError for a GPU older than all of the table's.
    """
    head_dim = 128 if head_dim == 96 else head_dim
    by_chip, other = (
        (_BY_CHIP_32_BIT, _OTHER_HEAD_DIM_32_BIT) if element_bytes == 4 else (_BY_CHIP_16_BIT, _OTHER_HEAD_DIM_16_BIT)
    )
    chips = [chip for chip in by_chip if chip <= compute_capability]
    if not chips:
        raise ValueError(f"no config for compute capability {compute_capability}; the oldest is {min(by_chip)}")
    return by_chip[max(chips)].get(head_dim, other)
