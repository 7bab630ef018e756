"""warpwatch's kernels as PyTorch operators. torch and the extension are loaded by the first operator asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .extension import extension_path

if TYPE_CHECKING:
    from .operators.attention_ladder import naive_attention, tiled_attention
    from .operators.decode_attention import decode_attention
    from .operators.flash_attention import flash_attention, flash_attention_backward, flash_attention_with_lse
    from .operators.flash_attention_varlen import flash_attention_varlen, flash_attention_varlen_with_lse
    from .operators.int4_decode_attention import int4_decode_attention
    from .operators.int4_kv_append import int4_kv_append
    from .operators.int4_linear import int4_linear, quantize_int4, quantize_int4_zero_point
    from .operators.int4_packing import pack_int4, unpack_int4
    from .operators.int8_decode_attention import int8_decode_attention
    from .operators.int8_kv_append import int8_kv_append
    from .operators.int8_linear import int8_linear, quantize_int8_per_token, quantize_int8_weight
    from .operators.int8_weight_linear import int8_weight_linear
    from .operators.kv_append import kv_append
    from .operators.layer_norm import add_layer_norm, layer_norm
    from .operators.linear_activation import ffn_gelu, linear_gelu, linear_silu, swiglu
    from .operators.paged_decode_attention import paged_decode_attention
    from .operators.paged_kv import paged_kv_append, paged_kv_gather
    from .operators.reduce_sum import reduce_sum
    from .operators.rms_norm import add_rms_norm, rms_norm
    from .operators.rope import rope, rope_, rope_computed, rope_computed_
    from .operators.rope_paged_kv_append import rope_computed_paged_kv_append, rope_paged_kv_append
    from .operators.vector_add import vector_add

__all__ = [
    "add_layer_norm",
    "add_rms_norm",
    "decode_attention",
    "extension_path",
    "ffn_gelu",
    "flash_attention",
    "flash_attention_backward",
    "flash_attention_varlen",
    "flash_attention_varlen_with_lse",
    "flash_attention_with_lse",
    "int4_decode_attention",
    "int4_kv_append",
    "int4_linear",
    "int8_decode_attention",
    "int8_kv_append",
    "int8_linear",
    "int8_weight_linear",
    "kv_append",
    "layer_norm",
    "linear_gelu",
    "linear_silu",
    "naive_attention",
    "pack_int4",
    "paged_decode_attention",
    "paged_kv_append",
    "paged_kv_gather",
    "quantize_int4",
    "quantize_int4_zero_point",
    "quantize_int8_per_token",
    "quantize_int8_weight",
    "reduce_sum",
    "rms_norm",
    "rope",
    "rope_",
    "rope_computed",
    "rope_computed_",
    "rope_computed_paged_kv_append",
    "rope_paged_kv_append",
    "swiglu",
    "tiled_attention",
    "unpack_int4",
    "vector_add",
]

_HOME = {  # public name -> the module it lives in
    "add_layer_norm": "layer_norm",
    "add_rms_norm": "rms_norm",
    "decode_attention": "decode_attention",
    "ffn_gelu": "linear_activation",
    "flash_attention": "flash_attention",
    "flash_attention_backward": "flash_attention",
    "flash_attention_varlen": "flash_attention_varlen",
    "flash_attention_varlen_with_lse": "flash_attention_varlen",
    "flash_attention_with_lse": "flash_attention",
    "int4_decode_attention": "int4_decode_attention",
    "int4_kv_append": "int4_kv_append",
    "int4_linear": "int4_linear",
    "int8_decode_attention": "int8_decode_attention",
    "int8_kv_append": "int8_kv_append",
    "int8_linear": "int8_linear",
    "int8_weight_linear": "int8_weight_linear",
    "kv_append": "kv_append",
    "layer_norm": "layer_norm",
    "linear_gelu": "linear_activation",
    "linear_silu": "linear_activation",
    "naive_attention": "attention_ladder",
    "pack_int4": "int4_packing",
    "paged_decode_attention": "paged_decode_attention",
    "paged_kv_append": "paged_kv",
    "paged_kv_gather": "paged_kv",
    "quantize_int4": "int4_linear",
    "quantize_int4_zero_point": "int4_linear",
    "quantize_int8_per_token": "int8_linear",
    "quantize_int8_weight": "int8_linear",
    "reduce_sum": "reduce_sum",
    "rms_norm": "rms_norm",
    "rope": "rope",
    "rope_": "rope",
    "rope_computed": "rope",
    "rope_computed_": "rope",
    "rope_computed_paged_kv_append": "rope_paged_kv_append",
    "rope_paged_kv_append": "rope_paged_kv_append",
    "swiglu": "linear_activation",
    "tiled_attention": "attention_ladder",
    "unpack_int4": "int4_packing",
    "vector_add": "vector_add",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.operators.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
