"""linear_silu in Triton, under its own name; the kernel is linear_activation's."""

from .linear_activation import linear_silu

__all__ = ["linear_silu"]
