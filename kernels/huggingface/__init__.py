"""The kernels in Hugging Face transformers models, each enabled separately. Only this package imports transformers."""

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
