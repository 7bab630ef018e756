"""Reference of int8_kv_append: within which bounds a cache of 8-bit integers is behind it."""

import torch

from warpbench.output import Bounds

from .int8_kv import LEAST, int8_dequantize

_FP32 = 2.0**-21  # of a quotient: its division may be off by two units in the last place of float32


def int8_kv_append(
    cache: tuple[torch.Tensor, ...], k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor
) -> tuple[Bounds, ...]:
    """Of keys, of values, and of the scales of both; cache as int8_kv_append takes it, each new row within capacity.

    A new row x has the scale max |x| / 127 and codes that stand for x within half a scale. All else stays as it was.
    """
    k_codes, v_codes, k_scales, v_scales = cache
    rows, scales = zip(_appended(k_codes, k_scales, k, lengths), _appended(v_codes, v_scales, v, lengths), strict=True)
    return (*rows, *scales)


def _appended(
    codes: torch.Tensor, scales: torch.Tensor, x: torch.Tensor, lengths: torch.Tensor
) -> tuple[Bounds, Bounds]:
    rows = Bounds(values=int8_dequantize(codes, scales), slack=torch.zeros_like(codes, dtype=torch.float64))
    of_rows = Bounds(values=scales.double(), slack=torch.zeros_like(scales, dtype=torch.float64))
    seq = x.shape[2]
    for b, length in enumerate(lengths.tolist()):
        new = slice(length - seq, length)
        rows.values[b, :, new] = x[b].double()
        scale = x[b].double().abs().amax(-1).clamp_min(LEAST) / 127
        rows.slack[b, :, new] = scale[..., None] / 2 + x[b].double().abs() * _FP32
        of_rows.values[b, :, new] = scale
        of_rows.slack[b, :, new] = scale * _FP32
    return rows, of_rows
