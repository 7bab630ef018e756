"""linear in Triton, under its own name; the kernel is linear_activation's."""

from .linear_activation import linear

__all__ = ["linear"]
