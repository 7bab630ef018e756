"""Keys and values into a cache of 4-bit integers."""

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
    """Take the new tokens' keys and values into a cache as in KIVI, in place: whole groups of 32 tokens in 4 bits.

    k, v (batch, heads_kv, seq, head_dim) in float16, bfloat16 or float32, head_dim a multiple of 32 up to 256 and
    contiguous. The cache, all of it contiguous, capacity a multiple of 32: k_codes, v_codes (batch, heads_kv, capacity,
    head_dim / 2) uint8, channel 2 i in the low four bits of byte i; k_scales (batch, heads_kv, capacity / 32, 2,
    head_dim) float16, scales and zeros of each channel for a group of 32 tokens; v_scales (batch, heads_kv, capacity,
    head_dim / 32, 2) float16, scale and zero of each token for a group of 32 channels; k_window, v_window (batch,
    heads_kv, 32, head_dim) in k's dtype, position j in row j % 32. lengths (batch) int32 counts the new tokens already:
    row i goes to position lengths[b] - seq + i, and what falls outside 0 .. capacity - 1 is left out. Tokens that are
    not a whole group yet stay in the window; those that become one are quantized, so the window must hold what came
    before in the first new token's group. Of 32 numbers the least is the zero and (most - least) / 15 the scale, both
    in float16: magnitudes beyond 65504, float16's largest, count as that, also where attention reads them from the
    window. The CPU's codes are the GPU's. No part of the cache may overlap another, nor k or v.
    Liu et al., "KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache" (ICML 2024), at 4 bits.
    Raises RuntimeError with a sentence for a shape, dtype, device or stride it does not take.
    """
    _int4_kv_append(k, v, k_codes, v_codes, k_scales, v_scales, k_window, v_window, lengths)


_int4_kv_append = load_operator("int4_kv_append")
