"""Inputs of naive_attention: those of flash_attention."""

from .flash_attention import AttentionInputs, make

__all__ = ["AttentionInputs", "make"]
