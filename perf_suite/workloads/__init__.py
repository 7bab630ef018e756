"""The catalogue: every operator's workloads. Importing it needs neither torch nor a kernel."""

from dataclasses import replace

from warpbench.workload import Workload

from . import (
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
    language_model,
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

_CATALOGUE: dict[str, tuple[Workload, ...]] = {
    "decode_attention": decode_attention.WORKLOADS,
    "ffn_gelu": ffn_gelu.WORKLOADS,
    "flash_attention": flash_attention.WORKLOADS,
    "flash_attention_backward": flash_attention_backward.WORKLOADS,
    "flash_attention_varlen": flash_attention_varlen.WORKLOADS,
    "int4_decode_attention": int4_decode_attention.WORKLOADS,
    "int4_kv_append": int4_kv_append.WORKLOADS,
    "int4_linear": int4_linear.WORKLOADS,
    "int8_decode_attention": int8_decode_attention.WORKLOADS,
    "int8_kv_append": int8_kv_append.WORKLOADS,
    "int8_linear": int8_linear.WORKLOADS,
    "int8_weight_linear": int8_weight_linear.WORKLOADS,
    "kv_append": kv_append.WORKLOADS,
    "language_model": language_model.WORKLOADS,
    "layer_norm": layer_norm.WORKLOADS,
    "linear_gelu": linear_gelu.WORKLOADS,
    "linear_silu": linear_silu.WORKLOADS,
    "naive_attention": naive_attention.WORKLOADS,
    "paged_decode_attention": paged_decode_attention.WORKLOADS,
    "paged_kv_append": paged_kv_append.WORKLOADS,
    "paged_kv_gather": paged_kv_gather.WORKLOADS,
    "reduce_sum": reduce_sum.WORKLOADS,
    "rms_norm": rms_norm.WORKLOADS,
    "rope": rope.WORKLOADS,
    "rope_paged_kv_append": rope_paged_kv_append.WORKLOADS,
    "swiglu": swiglu.WORKLOADS,
    "tiled_attention": tiled_attention.WORKLOADS,
    "transformer_layer": transformer_layer.WORKLOADS,
    "vector_add": vector_add.WORKLOADS,
}
OPERATORS = tuple(_CATALOGUE)
_BASELINES = ("sdpa", "sdpa_flash", "cublas", "eager", "torch_compile")


def with_roles(workload: Workload) -> Workload:
    """The workload with its class, and with which of its implementations are baselines."""
    name = "".join(word.capitalize() for word in workload.operator.split("_"))
    return replace(
        workload,
        source=f"perf_suite.benchmarks.{workload.operator}:{name}",
        baselines=tuple(each for each in workload.implementations if each in _BASELINES),
    )


def workloads_of(operator: str) -> tuple[Workload, ...]:
    """All rows of an operator, GPU and CPU. Raises KeyError if the catalogue has no such operator."""
    if operator not in _CATALOGUE:
        raise KeyError(f"no operator {operator!r} in the catalogue; it has {', '.join(OPERATORS)}")
    return tuple(map(with_roles, _CATALOGUE[operator]))


def workload_named(operator: str, name: str) -> Workload:
    """One row. Raises KeyError with the names there are."""
    for workload in workloads_of(operator):
        if workload.name == name:
            return workload
    known = ", ".join(workload.name for workload in workloads_of(operator))
    raise KeyError(f"no workload {name!r} of {operator}; it has {known}")
