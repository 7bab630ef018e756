"""What is watched of each operator's compiled code, and for which architectures. No torch here."""

from dataclasses import dataclass

ARCHITECTURES = ("sm_75", "sm_86", "sm_89", "sm_90a", "sm_120")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One operator's. asv wants these names before a commit is built; tests hold them against the built library."""

    kernels: tuple[str, ...]  # `__global__` functions
    twins: tuple[str, ...]  # Triton functions that its twin launches
    sources: tuple[str, ...]  # CUDA files, below kernels/csrc


WATCHED: dict[str, Watched] = {
    "int8_decode_attention": Watched(
        kernels=("int8_decode_attention_sm75_kernel", "int8_decode_attention_sm80_kernel"),
        twins=("_int8_decode_attention", "_int8_combine_parts"),
        sources=(
            "int8_decode_attention/int8_decode_attention_sm75.cu",
            "int8_decode_attention/int8_decode_attention_sm80.cu",
        ),
    ),
    "int4_decode_attention": Watched(
        kernels=("int4_decode_attention_sm75_kernel", "int4_decode_attention_sm80_kernel"),
        twins=("_int4_decode_attention", "_int4_combine_parts"),
        sources=(
            "int4_decode_attention/int4_decode_attention_sm75.cu",
            "int4_decode_attention/int4_decode_attention_sm80.cu",
        ),
    ),
    "paged_decode_attention": Watched(
        kernels=(
            "paged_decode_attention_fp32_kernel",
            "paged_decode_attention_sm75_kernel",
            "paged_decode_attention_sm80_kernel",
        ),
        twins=("_paged_decode_attention", "_paged_combine_parts"),
        sources=(
            "paged_decode_attention/paged_decode_attention_fp32.cu",
            "paged_decode_attention/paged_decode_attention_sm75.cu",
            "paged_decode_attention/paged_decode_attention_sm80.cu",
        ),
    ),
    "int8_weight_linear": Watched(
        kernels=(
            "int8_weight_dequantize",
            "int8_weight_linear_rows",
            "int8_weight_linear_tall",
            "int8_weight_linear_wgmma",
        ),
        twins=("_int8_weight_linear",),
        sources=(
            "int8_weight_linear/int8_weight_dequantize.cu",
            "int8_weight_linear/int8_weight_linear_sm75.cu",
            "int8_weight_linear/int8_weight_linear_sm80.cu",
            "int8_weight_linear/int8_weight_linear_sm90a.cu",
            "int8_weight_linear/int8_weight_linear_tall_sm90a.cu",
        ),
    ),
    "linear_gelu": Watched(
        kernels=("bias_activation_rows", "linear_activation_fused"),
        twins=("_linear_activation",),
        sources=(
            "linear_activation/linear_activation_sm75.cu",
            "linear_activation/linear_activation_sm80.cu",
        ),
    ),
    "swiglu": Watched(
        kernels=("silu_mul_rows",), twins=("_swiglu",), sources=("linear_activation/activation_rows.cu",)
    ),
    "tiled_attention": Watched(
        kernels=("tiled_attention_kernel",),
        twins=("_tiled_attention",),
        sources=("attention_ladder/tiled_attention.cu",),
    ),
    "naive_attention": Watched(
        kernels=("naive_attention_kernel",),
        twins=("_naive_attention",),
        sources=("attention_ladder/naive_attention.cu",),
    ),
    "decode_attention": Watched(
        kernels=(
            "decode_attention_combine",
            "decode_attention_fp32_kernel",
            "decode_attention_sm75_kernel",
            "decode_attention_sm80_kernel",
        ),
        twins=("_decode_attention", "_combine_parts"),
        sources=(
            "decode_attention/decode_attention_combine.cu",
            "decode_attention/decode_attention_fp32.cu",
            "decode_attention/decode_attention_sm75.cu",
            "decode_attention/decode_attention_sm80.cu",
        ),
    ),
    "flash_attention": Watched(
        kernels=(
            "flash_attention_fp32_kernel",
            "flash_attention_sm75_kernel",
            "flash_attention_sm80_kernel",
            "flash_attention_sm90a_kernel",
            "flash_attention_tf32_kernel",
        ),
        twins=("_flash_attention", "_flash_attention_biased"),
        sources=(
            "flash_attention/flash_attention_biased_sm80.cu",
            "flash_attention/flash_attention_biased_sm90a.cu",
            "flash_attention/flash_attention_fp32_sm75.cu",
            "flash_attention/flash_attention_fp32_sm80.cu",
            "flash_attention/flash_attention_hbm.cu",
            "flash_attention/flash_attention_packed_sm80.cu",
            "flash_attention/flash_attention_sm75.cu",
            "flash_attention/flash_attention_sm80.cu",
            "flash_attention/flash_attention_sm90a.cu",
            "flash_attention/flash_attention_tf32_biased_hbm.cu",
            "flash_attention/flash_attention_tf32_packed_hbm.cu",
            "flash_attention/flash_attention_tf32_hbm.cu",
        ),
    ),
    "flash_attention_backward": Watched(
        kernels=(
            "flash_attention_delta_kernel",
            "flash_attention_numbers_sm90a_kernel",
            "flash_attention_dkdv_fp32_kernel",
            "flash_attention_dkdv_sm75_kernel",
            "flash_attention_dkdv_sm80_kernel",
            "flash_attention_dkdv_sm90a_kernel",
            "flash_attention_dkdv_tf32_kernel",
            "flash_attention_dq_fp32_kernel",
            "flash_attention_dq_of_ds_sm90a_kernel",
            "flash_attention_dq_sm75_kernel",
            "flash_attention_dq_sm80_kernel",
            "flash_attention_dq_sm90a_kernel",
            "flash_attention_dq_tf32_kernel",
            "flash_attention_wide_gradient_sm90a_kernel",
        ),
        twins=("_flash_attention_delta", "_flash_attention_dq", "_flash_attention_dkdv"),
        sources=(
            "flash_attention/flash_attention_backward_fp32_sm75.cu",
            "flash_attention/flash_attention_backward_fp32_sm80.cu",
            "flash_attention/flash_attention_backward_fp32_sm90a.cu",
            "flash_attention/flash_attention_backward_sm75.cu",
            "flash_attention/flash_attention_backward_sm80.cu",
            "flash_attention/flash_attention_backward_sm90a.cu",
            "flash_attention/flash_attention_backward_tf32_hbm.cu",
            "flash_attention/flash_attention_backward_wide_sm90a.cu",
        ),
    ),
    "flash_attention_varlen": Watched(  # flash_attention's kernels
        kernels=(), twins=("_flash_attention_varlen",), sources=()
    ),
    "int4_linear": Watched(
        kernels=(
            "int4_linear_batch",
            "int4_linear_decode",
            "int4_linear_dequantize",
            "int4_linear_few",
            "int4_linear_many",
            "int4_linear_sum",
            "int4_linear_tall",
            "int4_linear_wide",
        ),
        twins=("_int4_linear",),
        sources=(
            "int4_linear/int4_linear_dequantize.cu",
            "int4_linear/int4_linear_few_sm90a.cu",
            "int4_linear/int4_linear_many_sm90a.cu",
            "int4_linear/int4_linear_sm75.cu",
            "int4_linear/int4_linear_sm80.cu",
            "int4_linear/int4_linear_tall_sm90a.cu",
            "int4_linear/int4_linear_wide_sm90a.cu",
        ),
    ),
    "int8_linear": Watched(
        kernels=("int8_linear_batch", "int8_linear_decode", "int8_linear_wgmma", "quantize_int8_rows"),
        twins=("_int8_linear", "_quantize_int8_rows"),
        sources=(
            "int8_linear/int8_linear_sm75.cu",
            "int8_linear/int8_linear_sm80.cu",
            "int8_linear/int8_linear_sm90a.cu",
            "quantize_int8/quantize_int8.cu",
        ),
    ),
    "kv_append": Watched(kernels=("kv_append_rows",), twins=("_kv_append",), sources=("kv_append/kv_append.cu",)),
    "int8_kv_append": Watched(
        kernels=("int8_kv_append_rows",), twins=("_int8_kv_append",), sources=("int8_kv/int8_kv.cu",)
    ),
    "int4_kv_append": Watched(
        kernels=("int4_kv_append_groups",), twins=("_int4_kv_append",), sources=("int4_kv/int4_kv.cu",)
    ),
    "paged_kv_append": Watched(
        kernels=("paged_kv_append_kernel", "paged_kv_append_rows"),
        twins=("_paged_kv_append",),
        sources=("paged_kv/paged_kv.cu",),
    ),
    "paged_kv_gather": Watched(
        kernels=("paged_kv_gather_kernel", "paged_kv_gather_rows"), twins=("_paged_kv_gather",), sources=()
    ),
    "rope": Watched(
        kernels=("rope_pairs", "rope_pieces", "rope_rows", "rope_small"), twins=("_rope",), sources=("rope/rope.cu",)
    ),
    "rope_paged_kv_append": Watched(
        kernels=("rope_paged_kv_append_kernel", "rope_paged_kv_append_small"),
        twins=("_rope_paged_kv_append",),
        sources=("rope_paged_kv_append/rope_paged_kv_append.cu",),
    ),
    "rms_norm": Watched(
        kernels=(
            "rms_norm_any",
            "rms_norm_in_registers",
        ),
        twins=("_rms_norm",),
        sources=("rms_norm/rms_norm.cu",),
    ),
    "layer_norm": Watched(
        kernels=(
            "layer_norm_any",
            "layer_norm_in_registers",
        ),
        twins=("_layer_norm",),
        sources=("layer_norm/layer_norm.cu",),
    ),
    "vector_add": Watched(
        kernels=(
            "vector_add_elements",
            "vector_add_pieces",
        ),
        twins=("_vector_add",),
        sources=("vector_add/vector_add.cu",),
    ),
    "reduce_sum": Watched(
        kernels=(
            "reduce_sum_columns",
            "reduce_sum_long_rows",
            "reduce_sum_second_columns",
            "reduce_sum_short_rows",
        ),
        twins=("_reduce_sum",),
        sources=("reduce_sum/reduce_sum.cu",),
    ),
}

_OPERATORS = {kernel: operator for operator, watched in WATCHED.items() for kernel in watched.kernels + watched.twins}


def operator_of(kernel: str) -> str | None:
    """The operator a kernel or a Triton function belongs to, or None if it is not watched."""
    return _OPERATORS.get(kernel)
