"""linear_gelu in Triton, under its own name; the kernel is linear_activation's."""

from .linear_activation import linear_gelu

__all__ = ["linear_gelu"]
