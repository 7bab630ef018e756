"""How the Triton vector_add is cut: one frozen choice, so that a recorded number always means the same code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorAddConfig:
    """One way to launch `_vector_add`."""

    block: int  # elements of one program
    num_warps: int


# Reasoned, not yet tuned on any chip: eight elements of each vector a thread are one load of 16 bytes at two bytes an
# element, two at four.
VECTOR_ADD_CONFIG = VectorAddConfig(block=1024, num_warps=4)
