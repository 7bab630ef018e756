"""The smallest call of each operator, so that the host is what takes the time. No torch here."""

from dataclasses import replace

from warpbench.workload import Workload

from ..workloads import (
    decode_attention,
    ffn_gelu,
    flash_attention,
    flash_attention_backward,
    flash_attention_varlen,
    int4_decode_attention,
    int4_kv_append,
    int4_linear,
    int8_decode_attention,
    int8_kv_append,
    int8_linear,
    int8_weight_linear,
    kv_append,
    layer_norm,
    linear_gelu,
    linear_silu,
    naive_attention,
    paged_decode_attention,
    paged_kv_append,
    paged_kv_gather,
    reduce_sum,
    rms_norm,
    rope,
    rope_paged_kv_append,
    swiglu,
    tiled_attention,
    transformer_layer,
    vector_add,
)

_DTYPES = {"cuda": "fp16", "cpu": "fp32"}
_SMALLEST = {
    "int8_decode_attention": lambda device, dtype: int8_decode_attention.workload(
        device, dtype, heads=1, seq_len_kv=16, head_dim=64
    ),
    "int4_decode_attention": lambda device, dtype: int4_decode_attention.workload(
        device, dtype, heads=1, seq_len_kv=32, head_dim=64
    ),
    "int8_kv_append": lambda device, dtype: int8_kv_append.workload(device, dtype, heads=1, tokens=1, capacity=16),
    "int4_kv_append": lambda device, dtype: int4_kv_append.workload(device, dtype, heads=1, tokens=1, capacity=32),
    "paged_decode_attention": lambda device, dtype: paged_decode_attention.workload(
        device, dtype, heads=1, seq_len_kv=16, head_dim=64, page_size=16
    ),
    "int8_weight_linear": lambda device, dtype: int8_weight_linear.workload(device, dtype, depth=128, outputs=64),
    "linear_gelu": lambda device, dtype: linear_gelu.workload(device, dtype, depth=128, outputs=64),
    "swiglu": lambda device, dtype: swiglu.workload(device, dtype, depth=64, outputs=64),
    "linear_silu": lambda device, dtype: linear_silu.workload(device, dtype, depth=64, outputs=64),
    "ffn_gelu": lambda device, dtype: ffn_gelu.workload(device, dtype, depth=64, outputs=64),
    "transformer_layer": lambda device, dtype: transformer_layer.workload(
        device, dtype, seq_len=1, hidden=64 if device == "cuda" else 32, intermediate=16, heads=1
    ),
    "tiled_attention": lambda device, dtype: tiled_attention.workload(device, dtype, heads=1, seq_len=16, head_dim=64),
    "naive_attention": lambda device, dtype: naive_attention.workload(device, dtype, heads=1, seq_len=16, head_dim=64),
    "decode_attention": lambda device, dtype: decode_attention.workload(
        device, dtype, heads=1, seq_len_kv=16, head_dim=64
    ),
    "flash_attention": lambda device, dtype: flash_attention.workload(device, dtype, heads=1, seq_len=16, head_dim=64),
    "flash_attention_backward": lambda device, dtype: flash_attention_backward.workload(
        device, dtype, heads=1, seq_len=16, head_dim=64
    ),
    "flash_attention_varlen": lambda device, dtype: flash_attention_varlen.workload(
        device, dtype, batch=2, heads=1, shortest=8, longest=16, head_dim=64
    ),
    "int4_linear": lambda device, dtype: int4_linear.workload(device, dtype, depth=128, outputs=128),
    "int8_linear": lambda device, dtype: int8_linear.workload(device, dtype, depth=128, outputs=128),
    "kv_append": lambda device, dtype: kv_append.workload(device, dtype, heads=1, tokens=1, capacity=16),
    "paged_kv_append": lambda device, dtype: paged_kv_append.workload(
        device, dtype, heads=1, tokens=1, capacity=16, page_size=16
    ),
    "paged_kv_gather": lambda device, dtype: paged_kv_gather.workload(device, dtype, heads=1, seq_len=16, page_size=16),
    "rope": lambda device, dtype: rope.workload(device, dtype, heads=1, seq_len=1),
    "rope_paged_kv_append": lambda device, dtype: rope_paged_kv_append.workload(
        device, dtype, heads=1, tokens=1, capacity=16, page_size=16
    ),
    "rms_norm": lambda device, dtype: rms_norm.workload(device, dtype, rows=1, cols=128),
    "layer_norm": lambda device, dtype: layer_norm.workload(device, dtype, rows=1, cols=128),
    "vector_add": lambda device, dtype: vector_add.workload(device, dtype, elements=16),
    "reduce_sum": lambda device, dtype: reduce_sum.workload(device, dtype, reduced=16),
}
# Compiling it anew takes longer than measuring all the others.
_LEFT_OUT = {"torch_compile"}

OPERATORS = tuple(_SMALLEST)
# A whole model is no smallest call: importing transformers alone takes longer than measuring all operators.
WITHOUT = ("control", "language_model")


def smallest(operator: str, device: str) -> Workload:
    """The operator's smallest workload, called like the operator."""
    workload = _SMALLEST[operator](device, _DTYPES[device])
    implementations = tuple(name for name in workload.implementations if name not in _LEFT_OUT)
    return replace(workload, name=operator, implementations=implementations)


def implementations() -> tuple[str, ...]:
    """Those of any operator on any device."""
    workloads = [smallest(operator, device) for operator in OPERATORS for device in ("cuda", "cpu")]
    return tuple(dict.fromkeys(name for workload in workloads for name in workload.implementations))


def case(operator: str, implementation: str) -> str:
    """How a combination is called between the processes: "rope-warpwatch"."""
    return f"{operator}-{implementation}"
