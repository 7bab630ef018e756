"""warpwatch's kernels as PyTorch operators. torch and the extension are loaded by the first operator asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .extension import extension_path

if TYPE_CHECKING:
    from .operators.attention_ladder import naive_attention as naive_attention
    from .operators.attention_ladder import tiled_attention as tiled_attention
    from .operators.decode_attention import decode_attention as decode_attention
    from .operators.flash_attention import flash_attention as flash_attention
    from .operators.flash_attention import flash_attention_backward as flash_attention_backward
    from .operators.flash_attention import flash_attention_with_lse as flash_attention_with_lse
    from .operators.flash_attention_varlen import flash_attention_varlen as flash_attention_varlen
    from .operators.flash_attention_varlen import flash_attention_varlen_with_lse as flash_attention_varlen_with_lse
    from .operators.int4_decode_attention import int4_decode_attention as int4_decode_attention
    from .operators.int4_kv_append import int4_kv_append as int4_kv_append
    from .operators.int4_linear import int4_linear as int4_linear
    from .operators.int4_linear import quantize_int4 as quantize_int4
    from .operators.int4_linear import quantize_int4_zero_point as quantize_int4_zero_point
    from .operators.int4_packing import pack_int4 as pack_int4
    from .operators.int4_packing import unpack_int4 as unpack_int4
    from .operators.int8_decode_attention import int8_decode_attention as int8_decode_attention
    from .operators.int8_kv_append import int8_kv_append as int8_kv_append
    from .operators.int8_linear import int8_linear as int8_linear
    from .operators.int8_linear import quantize_int8_per_token as quantize_int8_per_token
    from .operators.int8_linear import quantize_int8_weight as quantize_int8_weight
    from .operators.int8_weight_linear import int8_weight_linear as int8_weight_linear
    from .operators.kv_append import kv_append as kv_append
    from .operators.layer_norm import add_layer_norm as add_layer_norm
    from .operators.layer_norm import layer_norm as layer_norm
    from .operators.linear_activation import ffn_gelu as ffn_gelu
    from .operators.linear_activation import linear_gelu as linear_gelu
    from .operators.linear_activation import linear_silu as linear_silu
    from .operators.linear_activation import swiglu as swiglu
    from .operators.paged_decode_attention import paged_decode_attention as paged_decode_attention
    from .operators.paged_kv import paged_kv_append as paged_kv_append
    from .operators.paged_kv import paged_kv_gather as paged_kv_gather
    from .operators.reduce_sum import reduce_sum as reduce_sum
    from .operators.rms_norm import add_rms_norm as add_rms_norm
    from .operators.rms_norm import rms_norm as rms_norm
    from .operators.rope import rope as rope
    from .operators.rope import rope_ as rope_
    from .operators.rope import rope_computed as rope_computed
    from .operators.rope import rope_computed_ as rope_computed_
    from .operators.rope_paged_kv_append import rope_computed_paged_kv_append as rope_computed_paged_kv_append
    from .operators.rope_paged_kv_append import rope_paged_kv_append as rope_paged_kv_append
    from .operators.vector_add import vector_add as vector_add

_NAMES_OF = {  # module -> the public names that it defines
    "attention_ladder": "naive_attention tiled_attention",
    "decode_attention": "decode_attention",
    "flash_attention": "flash_attention flash_attention_backward flash_attention_with_lse",
    "flash_attention_varlen": "flash_attention_varlen flash_attention_varlen_with_lse",
    "int4_decode_attention": "int4_decode_attention",
    "int4_kv_append": "int4_kv_append",
    "int4_linear": "int4_linear quantize_int4 quantize_int4_zero_point",
    "int4_packing": "pack_int4 unpack_int4",
    "int8_decode_attention": "int8_decode_attention",
    "int8_kv_append": "int8_kv_append",
    "int8_linear": "int8_linear quantize_int8_per_token quantize_int8_weight",
    "int8_weight_linear": "int8_weight_linear",
    "kv_append": "kv_append",
    "layer_norm": "add_layer_norm layer_norm",
    "linear_activation": "ffn_gelu linear_gelu linear_silu swiglu",
    "paged_decode_attention": "paged_decode_attention",
    "paged_kv": "paged_kv_append paged_kv_gather",
    "reduce_sum": "reduce_sum",
    "rms_norm": "add_rms_norm rms_norm",
    "rope": "rope rope_ rope_computed rope_computed_",
    "rope_paged_kv_append": "rope_computed_paged_kv_append rope_paged_kv_append",
    "vector_add": "vector_add",
}
_HOME = {name: module for module, names in _NAMES_OF.items() for name in names.split()}
__all__ = ["extension_path", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.operators.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
