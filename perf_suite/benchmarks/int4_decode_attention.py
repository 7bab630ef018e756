"""int4_decode_attention, a decode step over KIVI's 4-bit cache: a third of decode_attention's bytes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case
from warpbench.cost import Cost
from warpbench.lazy import torch

from ..attention_masks import causal_pairs
from ..compiled.watched_kernels import Watched
from ..quantized_kv import (
    GROUP,
    int4_dequantize_keys,
    int4_dequantize_values,
    int4_quantize_keys,
    int4_quantize_values,
    with_window,
)
from .int8_decode_attention import QuantizedDecodeAttention, quantized_case

if TYPE_CHECKING:
    from warpbench.draw import Draw


def cost(*, batch: int, heads_q: int, heads_kv: int, seq_q: int, keys: int, head_dim: int, element_bytes: int) -> Cost:
    """decode_attention's FLOPs; 4 bits an element, scale and zero of 16 for 32; the last keys % 32 as they are."""
    queries = batch * heads_q * seq_q * head_dim
    row = 2 * batch * heads_kv * head_dim
    window = keys % 32
    return Cost(
        flops=4 * batch * heads_q * head_dim * causal_pairs(seq_q, keys),
        bytes=2 * queries * element_bytes + row * (keys - window) * 5 // 8 + row * window * element_bytes,
    )


case = functools.partial(quantized_case, cost)


class Int4DecodeAttention(QuantizedDecodeAttention):
    """decode_attention over keys and values as 4-bit integers in KIVI's layout (quantized_kv.py); out like q.

    q (batch, heads_q, seq_q, head_dim); k_codes, v_codes uint8 (batch, heads_kv, capacity, head_dim / 2); k_scales
    float16 (batch, heads_kv, capacity / 32, 2, head_dim) and v_scales (batch, heads_kv, capacity, head_dim / 32, 2),
    scale and zero; k_window, v_window (batch, heads_kv, 32, head_dim): the tokens behind the last whole group of 32,
    unquantized; lengths int32 (batch).
    """

    watched = Watched(
        kernels=("int4_decode_attention_sm75_kernel", "int4_decode_attention_sm80_kernel"),
        twins=("_int4_decode_attention", "_int4_combine_parts"),
        sources=(
            "int4_decode_attention/int4_decode_attention_sm75.cu",
            "int4_decode_attention/int4_decode_attention_sm80.cu",
        ),
    )
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=1024),  # Llama 3 8B
        case("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=4096, energy_of=("warpwatch", "sdpa")),
        case("cuda", "bf16", batch=8, heads=32, heads_kv=8, seq_len_kv=4096),
        case("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=16384),
        case("cuda", "fp16", batch=1, heads=32, heads_kv=8, seq_len_kv=32768),
        case("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len=4, seq_len_kv=4096),  # speculative decoding
        case("cuda", "fp16", batch=8, heads=32, seq_len_kv=1024),  # Llama 2 7B
        case("cpu", "fp32", batch=2, heads=8, heads_kv=2, seq_len_kv=500, head_dim=64),
    )
    smallest = {"heads": 1, "seq_len_kv": 32, "head_dim": 64}

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal q, keys and values, quantized by the reference; the window as full as seq_kv leaves it.

        The cache stays from call to call, as weights do: the baselines hold it in another form.
        """
        capacity = -(-case.seq_kv // GROUP) * GROUP
        cached = (case.batch, case.heads_kv, capacity, case.head_dim)
        window = (case.batch, case.heads_kv, GROUP, case.head_dim)
        q = draw.activation(case.batch, case.heads_q, case.seq_q, case.head_dim)
        k_codes, k_scales = int4_quantize_keys(draw.activation(*cached))
        v_codes, v_scales = int4_quantize_values(draw.activation(*cached))
        lengths = torch.full((case.batch,), case.seq_kv, dtype=torch.int32, device=draw.device)
        return {
            "q": q,
            "k_codes": draw.constant(k_codes),
            "v_codes": draw.constant(v_codes),
            "k_scales": draw.constant(k_scales),
            "v_scales": draw.constant(v_scales),
            "k_window": draw.weight(*window),
            "v_window": draw.weight(*window),
            "lengths": draw.constant(lengths),
        }

    @staticmethod
    def dequantized(
        k_codes: torch.Tensor,
        v_codes: torch.Tensor,
        k_scales: torch.Tensor,
        v_scales: torch.Tensor,
        k_window: torch.Tensor,
        v_window: torch.Tensor,
        lengths: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values in float64, (batch, heads_kv, capacity, head_dim)."""
        k, v = int4_dequantize_keys(k_codes, k_scales), int4_dequantize_values(v_codes, v_scales)
        return with_window(k, k_window, lengths), with_window(v, v_window, lengths)
