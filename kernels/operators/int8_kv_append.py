"""Append of keys and values to an int8 cache."""

from __future__ import annotations

import torch

from ..extension import load_operator


def int8_kv_append(
    k: torch.Tensor,
    v: torch.Tensor,
    k_codes: torch.Tensor,
    v_codes: torch.Tensor,
    k_scales: torch.Tensor,
    v_scales: torch.Tensor,
    lengths: torch.Tensor,
) -> None:
    """Quantize the new tokens' keys and values into the cache, in place, with one scale per row.

    k, v (batch, heads_kv, seq, head_dim) in float16, bfloat16 or float32, head_dim a multiple of 8 up to 256; k_codes,
    v_codes (batch, heads_kv, capacity, head_dim) int8; k_scales, v_scales (batch, heads_kv, capacity) float32; the last
    dimension of each is contiguous. lengths (batch) int32 includes the new tokens, as in int8_decode_attention: row i
    is stored at position lengths[b] - seq + i, and positions outside 0 .. capacity - 1 are skipped. A row x becomes
    scale = max|x| / 127 and the integers nearest to x / scale, so that scale * code is within half a scale of x; a row
    with an infinity or NaN gets that as its scale. CPU and GPU compute the same codes. The written tensors must not
    overlap themselves or any other argument. On a GPU the rows of k and v start on 16-byte boundaries.
    Xiao et al., "SmoothQuant" (arXiv:2211.10438, 2022), per-token quantization.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    _int8_kv_append(k, v, k_codes, v_codes, k_scales, v_scales, lengths)


_int8_kv_append = load_operator("int8_kv_append")
