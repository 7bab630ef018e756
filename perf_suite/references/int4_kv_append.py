"""Reference of int4_kv_append: within which bounds a cache in KIVI's layout is behind it."""

import torch

from warpbench.output import Bounds

from .int4_kv import GROUP, int4_dequantize_keys, int4_dequantize_values

_FP16 = 2.0**-10  # one unit in the last place of float16, where a quotient in float32 may fall on either side


def int4_kv_append(
    cache: tuple[torch.Tensor, ...], k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor
) -> tuple[Bounds, ...]:
    """Of keys, of values, of the scales and zeros of both, and of both windows, cache as int4_kv_append takes it.

    Each new row is within capacity. 32 numbers x have the zero fp16(min x), the scale fp16((max x - min x) / 15), and
    codes that stand for x within half a scale but for the rounding of the two. All else stays as it was.
    """
    k_codes, v_codes, k_scales, v_scales, k_window, v_window = cache
    keys = _unchanged(int4_dequantize_keys(k_codes, k_scales))
    values = _unchanged(int4_dequantize_values(v_codes, v_scales))
    of_keys, of_values = _unchanged(k_scales), _unchanged(v_scales)
    windows = _unchanged(k_window), _unchanged(v_window)
    seq = k.shape[2]
    for b, length in enumerate(lengths.tolist()):
        begin = length - seq
        first, whole = begin // GROUP * GROUP, length // GROUP * GROUP
        new_k, new_v = (
            torch.cat((window[b, :, : begin - first], x[b]), dim=1).double()
            for window, x in ((k_window, k), (v_window, v))
        )  # from `first` on
        if whole > first:
            tokens, groups = slice(first, whole), slice(first // GROUP, whole // GROUP)
            x = new_k[:, : whole - first].unflatten(1, (-1, GROUP))  # (heads, groups, 32, head_dim)
            scale, zero, slack = _grid(x, 2)
            _put(keys, (b, slice(None), tokens), x.flatten(1, 2), slack.expand_as(x).flatten(1, 2))
            _put(of_keys, (b, slice(None), groups), *_scale_and_zero(scale, zero, 2))
            x = new_v[:, : whole - first].unflatten(2, (-1, GROUP))  # (heads, tokens, groups of channels, 32)
            scale, zero, slack = _grid(x, 3)
            _put(values, (b, slice(None), tokens), x.flatten(2), slack.expand_as(x).flatten(2))
            _put(of_values, (b, slice(None), tokens), *_scale_and_zero(scale, zero, 3))
        left = max(begin, whole)  # what is new of the open group
        for window, x in zip(windows, (new_k, new_v), strict=True):
            window.values[b, :, left - whole : length - whole] = x[:, left - first : length - first]
    return (keys, values, of_keys, of_values, *windows)


def _unchanged(x: torch.Tensor) -> Bounds:
    return Bounds(values=x.double().clone(), slack=torch.zeros_like(x, dtype=torch.float64))


def _grid(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scale, zero and slack of the numbers along a dimension, which stays with a size of 1."""
    zero, most = x.amin(dim, keepdim=True), x.amax(dim, keepdim=True)
    scale = (most - zero) / 15
    # A code may be chosen before scale and zero are rounded, as torch.compile does, and is off by their half unit more.
    return scale, zero, scale * (0.5 + _FP16) + (zero.abs() + 15 * scale) * _FP16 / 2


def _scale_and_zero(scale: torch.Tensor, zero: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Side by side in that dimension: their values in float16, and their slack."""
    return torch.cat((scale.half(), zero.half()), dim).double(), torch.cat((scale * _FP16, torch.zeros_like(zero)), dim)


def _put(bounds: Bounds, at: tuple[int | slice, ...], values: torch.Tensor, slack: torch.Tensor) -> None:
    bounds.values[at] = values
    bounds.slack[at] = slack
