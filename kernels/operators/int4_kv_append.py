"""Append of keys and values to a 4-bit cache."""

from __future__ import annotations

import torch

from ..extension import load_operator


def int4_kv_append(
    k: torch.Tensor,
    v: torch.Tensor,
    k_codes: torch.Tensor,
    v_codes: torch.Tensor,
    k_scales: torch.Tensor,
    v_scales: torch.Tensor,
    k_window: torch.Tensor,
    v_window: torch.Tensor,
    lengths: torch.Tensor,
) -> None:
    """Append the new tokens' keys and values to a cache as in KIVI, in place: complete groups of 32 tokens in 4 bits.

    k, v (batch, heads_kv, seq, head_dim) in float16, bfloat16 or float32, head_dim a multiple of 32 up to 256 and
    contiguous. The cache, all of it contiguous, capacity a multiple of 32: k_codes, v_codes (batch, heads_kv, capacity,
    head_dim / 2) uint8, channel 2 i in the low four bits of byte i; k_scales (batch, heads_kv, capacity / 32, 2,
    head_dim) float16, scales and zeros of each channel for a group of 32 tokens; v_scales (batch, heads_kv, capacity,
    head_dim / 32, 2) float16, scale and zero of each token for a group of 32 channels; k_window, v_window (batch,
    heads_kv, 32, head_dim) in k's dtype, position j in row j % 32. lengths (batch) int32 includes the new tokens: row i
    is stored at position lengths[b] - seq + i, and positions outside 0 .. capacity - 1 are skipped. Tokens of an
    incomplete group stay in the window; a group that becomes complete is quantized, so the window must hold the earlier
    tokens of the first new token's group. For 32 numbers, the smallest is the zero and (largest - smallest) / 15 the
    scale, both in float16: magnitudes beyond 65504, the largest in float16, are clamped, also where attention reads
    them from the window. CPU and GPU compute the same codes. The cache's tensors must not overlap each other, nor k or
    v.
    Liu et al., "KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache" (ICML 2024), here with 4 bits.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    _int4_kv_append(k, v, k_codes, v_codes, k_scales, v_scales, k_window, v_window, lengths)


_int4_kv_append = load_operator("int4_kv_append")
