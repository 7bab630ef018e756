"""The operators as nn.Modules, for models: each runs a kernel of ours, or PyTorch's own code to compare with."""

from .flash_attention import FlashAttention
from .kv_cache import KVCache
from .quantized_linear import QuantizedLinear
from .replace_linear import replace_linear_with_quantized

__all__ = ["FlashAttention", "KVCache", "QuantizedLinear", "replace_linear_with_quantized"]
