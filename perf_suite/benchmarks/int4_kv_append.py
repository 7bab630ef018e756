"""int4_kv_append: new keys and values into KIVI's 4-bit cache, where 32 tokens are quantized together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch

from ..compiled.watched_kernels import Watched
from ..language_models import LLAMA_3_8B
from ..quantized_kv import GROUP, int4_dequantize_keys, int4_dequantize_values, pack_nibbles
from . import int8_kv_append
from .kv_append import case as kv_append_case
from .kv_append import rows_of

if TYPE_CHECKING:
    from warpbench.draw import Draw
    from warpbench.output import Bounds

# The reference allows half a step around each value, so a right call has no error left.
_TOLERANCE = 1e-9
_FP16 = 2.0**-10  # one unit in the last place of float16, where a quotient in float32 may fall on either side


def cost(
    *, batch: int, heads: int, tokens: int, head_dim: int, element_bytes: int, whole: int, from_window: int
) -> Cost:
    """`whole` tokens of all sequences are quantized, `from_window` of them read there; what is left is written there.

    Five FLOPs an element of those: least, most, difference, product, rounding. They are written in four bits each, with
    four bytes of scale and zero for 32; a length a sequence is 4 bytes.
    """
    kept = batch * tokens - (whole - from_window)
    moved = (batch * tokens + from_window + kept) * element_bytes * head_dim
    coded = whole * (head_dim // 2 + head_dim // GROUP * 4)
    return Cost(flops=5 * 2 * heads * whole * head_dim, bytes=2 * heads * (moved + coded) + 4 * batch)


def case(
    device: str,
    dtype: str,
    *,
    batch: int = 1,
    heads: int = LLAMA_3_8B.heads_kv,
    tokens: int,
    capacity: int,
    head_dim: int = 128,
) -> Case:
    """kv_append's case with caches of codes.

    A single token is the last of its group in every 32nd sequence, the first one among them, and otherwise stays in the
    window; several begin with a group, for a second call must find what the first one found.
    Raises ValueError as it does, and if the cache or head_dim does not hold whole groups.
    """
    sizes: dict[str, Any] = {"batch": batch, "heads": heads, "tokens": tokens, "head_dim": head_dim}
    unquantized = kv_append_case(device, dtype, **sizes, capacity=capacity)
    if capacity % GROUP or head_dim % GROUP:
        raise ValueError(f"capacity and head_dim must be multiples of {GROUP}, got {capacity} and {head_dim}")
    closed = -(-batch // GROUP)  # groups, of a single token
    whole, from_window = (
        (closed * GROUP, closed * (GROUP - 1)) if tokens == 1 else (batch * (tokens // GROUP * GROUP), 0)
    )
    work = cost(**sizes, element_bytes=ELEMENT_BYTES[dtype], whole=whole, from_window=from_window)
    return Case(
        unquantized.name,
        device=device,
        dtype=dtype,
        tolerance=_TOLERANCE,
        bytes=work.bytes,
        flops=work.flops,
        arithmetic="fp32",
        **unquantized.shape,
    )


class Int4KvAppend(int8_kv_append.QuantizedKvAppend):
    """New keys and values into caches of 4-bit codes and windows of the open group, in place.

    k_codes, v_codes (batch, heads, capacity, head_dim / 2) uint8; scales and zeros fp16: k_scales
    (batch, heads, capacity / 32, 2, head_dim), v_scales (batch, heads, capacity, head_dim / 32, 2); k_window, v_window
    (batch, heads, 32, head_dim); k, v (batch, heads, tokens, head_dim); lengths (batch) int32, the new tokens among
    them. The whole of the caches is compared: what changed outside the new tokens and their groups is as wrong as a
    new token that is missing.
    """

    watched = Watched(kernels=("int4_kv_append_groups",), twins=("_int4_kv_append",), sources=("int4_kv/int4_kv.cu",))
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", batch=8, tokens=4096, capacity=4096),  # 176 MB: a prompt
        case("cuda", "fp16", batch=64, tokens=1, capacity=4096),  # a decode step of 64 sequences
        case("cuda", "fp16", batch=8, tokens=1, capacity=4096),
        case("cpu", "fp32", batch=2, tokens=77, capacity=128),
        case("cpu", "fp32", batch=34, heads=2, tokens=1, capacity=64, head_dim=64),
    )
    smallest = {"heads": 1, "tokens": 1, "capacity": 32}
    writes = ("k_codes", "v_codes", "k_scales", "v_scales", "k_window", "v_window")

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal keys, values and windows, a cache of any codes with scales and zeros in 0.5 .. 1.5."""
        caches = (case.batch, case.heads)
        k_codes, v_codes = draw.integers(1, 256, (2, *caches, case.capacity, case.head_dim // 2), dtype=torch.uint8)
        k_window, v_window = draw.activation(2, *caches, GROUP, case.head_dim)
        k, v = draw.activation(2, *caches, case.tokens, case.head_dim)

        def scales(*shape: int) -> torch.Tensor:
            return draw.uniform(*caches, *shape, low=0.5, high=1.5, dtype=torch.float16)

        return {
            "k_codes": k_codes,
            "v_codes": v_codes,
            "k_scales": scales(case.capacity // GROUP, 2, case.head_dim),
            "v_scales": scales(case.capacity, case.head_dim // GROUP, 2),
            "k_window": k_window,
            "v_window": v_window,
            "k": k,
            "v": v,
            "lengths": draw.constant(_lengths(case, draw).int()),
        }

    def reference(
        self,
        k_codes: torch.Tensor,
        v_codes: torch.Tensor,
        k_scales: torch.Tensor,
        v_scales: torch.Tensor,
        k_window: torch.Tensor,
        v_window: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        lengths: torch.Tensor,
    ) -> tuple[Bounds, ...]:
        """Bounds of keys, of values, of the scales and zeros of both, and of both windows.

        32 numbers x have the zero fp16(min x), the scale fp16((max x - min x) / 15), and codes that stand for x within
        half a scale but for the rounding of the two. All else stays as it was.
        """
        keys = _unchanged(int4_dequantize_keys(k_codes, k_scales))
        values = _unchanged(int4_dequantize_values(v_codes, v_scales))
        of_keys, of_values = _unchanged(k_scales), _unchanged(v_scales)
        windows = _unchanged(k_window), _unchanged(v_window)
        tokens = k.shape[2]
        for b, length in enumerate(lengths.tolist()):
            begin = length - tokens
            first, whole = begin // GROUP * GROUP, length // GROUP * GROUP
            new_k, new_v = (
                torch.cat((window[b, :, : begin - first], x[b]), dim=1) for window, x in ((k_window, k), (v_window, v))
            )  # from `first` on
            if whole > first:
                coded, groups = slice(first, whole), slice(first // GROUP, whole // GROUP)
                x = new_k[:, : whole - first].unflatten(1, (-1, GROUP))  # (heads, groups, 32, head_dim)
                scale, zero, slack = _grid(x, 2)
                _put(keys, (b, slice(None), coded), x.flatten(1, 2), slack.expand_as(x).flatten(1, 2))
                _put(of_keys, (b, slice(None), groups), *_scale_and_zero(scale, zero, 2))
                x = new_v[:, : whole - first].unflatten(2, (-1, GROUP))  # (heads, tokens, groups of channels, 32)
                scale, zero, slack = _grid(x, 3)
                _put(values, (b, slice(None), coded), x.flatten(2), slack.expand_as(x).flatten(2))
                _put(of_values, (b, slice(None), coded), *_scale_and_zero(scale, zero, 3))
            left = max(begin, whole)  # what is new of the open group
            for window, x in zip(windows, (new_k, new_v), strict=True):
                window.values[b, :, left - whole : length - whole] = x[:, left - first : length - first]
        return (keys, values, of_keys, of_values, *windows)

    def decode(self, k_codes: torch.Tensor, v_codes: torch.Tensor, *others: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Keys, values, the scales and zeros of both, and the windows."""
        k_scales, v_scales, *_ = others
        rows = int4_dequantize_keys(k_codes, k_scales), int4_dequantize_values(v_codes, v_scales)
        return (*rows, *(other.double() for other in others))

    @staticmethod
    def formula(k: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        """The formula and indexed assignments in plain PyTorch."""
        return _one_token(k, *others) if k.shape[2] == 1 else _from_a_group_on(k, *others)


def _lengths(case: Case, draw: Draw) -> torch.Tensor:
    """As `case` says: a single token is the b-th of its group, the last one where b is 0; several begin one."""
    if case.tokens > 1:
        room = (case.capacity - case.tokens) // GROUP + 1
        return case.tokens + GROUP * draw.integers(0, room, (case.batch,))
    earlier = draw.integers(0, case.capacity // GROUP, (case.batch,))
    place = torch.arange(case.batch, device=draw.device) % GROUP
    return GROUP * earlier + torch.where(place == 0, GROUP, place)


def _unchanged(x: torch.Tensor) -> Bounds:
    from warpbench.output import Bounds

    return Bounds(values=x.clone(), slack=torch.zeros_like(x))


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


def _from_a_group_on(
    k: torch.Tensor,
    v: torch.Tensor,
    k_codes: torch.Tensor,
    v_codes: torch.Tensor,
    k_scales: torch.Tensor,
    v_scales: torch.Tensor,
    k_window: torch.Tensor,
    v_window: torch.Tensor,
    lengths: torch.Tensor,
) -> torch.Tensor:
    """Tokens that begin with a group: whole groups as codes, the rest into the windows."""
    tokens = k.shape[2]
    whole = tokens // GROUP * GROUP
    first = lengths - tokens
    _assign(k_codes, first, _packed_keys(codes := _quantized(_by_group(k[:, :, :whole]))))
    _assign(k_scales, first // GROUP, torch.stack(codes[1:], dim=3))
    _assign(v_codes, first, _packed_values(values := _quantized(_by_channels(v[:, :, :whole]))))
    _assign(v_scales, first, torch.stack(values[1:], dim=-1))
    k_window[:, :, : tokens - whole] = k[:, :, whole:]
    v_window[:, :, : tokens - whole] = v[:, :, whole:]
    return k_codes


def _one_token(
    k: torch.Tensor,
    v: torch.Tensor,
    k_codes: torch.Tensor,
    v_codes: torch.Tensor,
    k_scales: torch.Tensor,
    v_scales: torch.Tensor,
    k_window: torch.Tensor,
    v_window: torch.Tensor,
    lengths: torch.Tensor,
) -> torch.Tensor:
    """A token into the window, or the group that it completes as codes: which of the two only the device knows."""
    place = lengths - 1
    closes = (lengths % GROUP == 0)[:, None, None, None]
    row = place % GROUP
    is_new = (torch.arange(GROUP, device=k.device) == row[:, None])[:, None, :, None]
    with_k, with_v = torch.where(is_new, k, k_window), torch.where(is_new, v, v_window)
    first = place // GROUP * GROUP
    codes, values = _quantized(_by_group(with_k)), _quantized(_by_channels(with_v))
    for held, at, new in (
        (k_codes, first, _packed_keys(codes)),
        (k_scales, first // GROUP, torch.stack(codes[1:], dim=3)),
        (v_codes, first, _packed_values(values)),
        (v_scales, first, torch.stack(values[1:], dim=-1)),
    ):
        old = held[rows_of(held, at, new.shape[2])]
        _assign(held, at, torch.where(closes.reshape(-1, *[1] * (old.dim() - 1)), new, old))
    k_window.copy_(torch.where(closes, k_window, with_k))
    v_window.copy_(torch.where(closes, v_window, with_v))
    return k_codes


def _by_group(k: torch.Tensor) -> torch.Tensor:
    """(batch, heads, groups, head_dim, 32): the 32 keys of a channel last."""
    return k.unflatten(2, (k.shape[2] // GROUP, GROUP)).transpose(-1, -2)


def _by_channels(v: torch.Tensor) -> torch.Tensor:
    """(batch, heads, tokens, groups, 32): 32 channels of a token last."""
    return v.unflatten(3, (v.shape[3] // GROUP, GROUP))


def _quantized(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes like x, scales and zeros of the numbers along the last dimension."""
    numbers = x.float()
    least, most = numbers.amin(-1), numbers.amax(-1)
    zeros, scales = least.half(), ((most - least) / 15).half()
    steps = (numbers - zeros.float()[..., None]) / scales.float()[..., None]
    return steps.round().clamp(0, 15).to(torch.uint8), scales, zeros


def _packed_keys(quantized: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return pack_nibbles(quantized[0].transpose(-1, -2).flatten(2, 3))


def _packed_values(quantized: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return pack_nibbles(quantized[0].flatten(3))


def _assign(held: torch.Tensor, first: torch.Tensor, new: torch.Tensor) -> None:
    held[rows_of(held, first, new.shape[2])] = new
