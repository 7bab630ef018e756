"""The kernels inside models of Hugging Face transformers, each switched in by itself. Only here is it imported."""

from .attention import ATTENTION, register_attention
from .cache import ContiguousCache, GraphCache
from .greedy_decoding import GreedyDecoding
from .layers import replace_linear, replace_mlp, replace_norms, replace_rotary

__all__ = [
    "ATTENTION",
    "ContiguousCache",
    "GraphCache",
    "GreedyDecoding",
    "register_attention",
    "replace_linear",
    "replace_mlp",
    "replace_norms",
    "replace_rotary",
]
