"""The operators as nn.Modules; each runs our kernel, or PyTorch's code for comparison."""

from .flash_attention import FlashAttention
from .graph_kv_cache import GraphKVCache
from .kv_cache import KVCache
from .linear_activation import FusedFFN, Linear, LinearGELU, LinearSiLU, SwiGLU
from .paged_kv_cache import PagedKVCache
from .quantized_kv_cache import Int4KVCache, Int8KVCache
from .quantized_linear import QuantizedLinear
from .replace_linear import replace_linear_with_quantized
from .transformer_layer import SelfAttention, TransformerLayer

__all__ = [
    "FlashAttention",
    "FusedFFN",
    "GraphKVCache",
    "Int4KVCache",
    "Int8KVCache",
    "KVCache",
    "Linear",
    "LinearGELU",
    "LinearSiLU",
    "PagedKVCache",
    "QuantizedLinear",
    "SelfAttention",
    "SwiGLU",
    "TransformerLayer",
    "replace_linear_with_quantized",
]
