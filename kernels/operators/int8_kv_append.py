"""Keys and values into a cache of 8-bit integers."""

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
    """Quantize the new tokens' keys and values into the cache, in place, each row with one scale of its own.

    k, v (batch, heads_kv, seq, head_dim) in float16, bfloat16 or float32, head_dim a multiple of 8 up to 256; k_codes,
    v_codes (batch, heads_kv, capacity, head_dim) int8; k_scales, v_scales (batch, heads_kv, capacity) float32; the last
    dimension of each is contiguous. lengths (batch) int32 counts the new tokens already, as int8_decode_attention takes
    it: row i goes to position lengths[b] - seq + i, and what falls outside 0 .. capacity - 1 is left out. A row x
    becomes scale = max|x| / 127 and the integers nearest to x / scale, so that scale * code is within half a scale of
    x; a row that holds an infinity or NaN gets a scale that says so. The CPU's codes are the GPU's. What is written
    must not overlap itself, nor anything else of the call. On a GPU the rows of k and v start on 16-byte boundaries.
    Xiao et al., "SmoothQuant" (arXiv:2211.10438, 2022), its per-token quantization.
    Raises RuntimeError with a sentence for a shape, dtype, device or stride it does not take.
    """
    _int8_kv_append(k, v, k_codes, v_codes, k_scales, v_scales, lengths)


_int8_kv_append = load_operator("int8_kv_append")
