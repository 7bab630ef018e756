"""Inputs of tiled_attention: those of flash_attention."""

from .flash_attention import AttentionInputs, make

__all__ = ["AttentionInputs", "make"]
