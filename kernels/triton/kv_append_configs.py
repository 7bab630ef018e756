"""How the Triton kv_append is cut: a frozen choice per head_dim, so that a number always means one code."""

from __future__ import annotations

from dataclasses import dataclass

import triton


@dataclass(frozen=True, slots=True, kw_only=True)
class KvAppendConfig:
    """One way to launch `_kv_append`."""

    block_tokens: int  # of one program
    num_warps: int


def kv_append_config(tokens: int, head_dim: int) -> KvAppendConfig:
    """The config of tracked runs for this shape: 4096 elements of keys and of values a program, 64 bytes of each of 128
    threads at two bytes an element. Reasoned, not yet tuned on any chip."""
    fitting = max(1, 4096 // triton.next_power_of_2(head_dim))
    return KvAppendConfig(block_tokens=min(fitting, triton.next_power_of_2(tokens)), num_warps=4)
