"""Implementations of int4_kv_append; each works in place and returns the whole cache."""

from collections.abc import Callable

import torch

from warpbench.prepared import Prepared
from warpbench.torch_compile import compiled

from ..inputs.int4_kv_append import Int4KvAppendInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator

_GROUP = 32


def warpwatch(inputs: Int4KvAppendInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    return _in_place(warpwatch_operator("int4_kv_append"), inputs)


def triton(inputs: Int4KvAppendInputs) -> Prepared:
    """Its Triton twin."""
    return _in_place(triton_operator("int4_kv_append"), inputs)


def eager(inputs: Int4KvAppendInputs) -> Prepared:
    """The formula and indexed assignments in plain PyTorch."""
    return _in_place(_formula(inputs), inputs)


def torch_compile(inputs: Int4KvAppendInputs) -> Prepared:
    """The same through torch.compile."""
    return _in_place(compiled(_formula(inputs), inputs.k_codes, inputs.k), inputs)


def _in_place(append: Callable[..., object], inputs: Int4KvAppendInputs) -> Prepared:
    written = inputs.written()

    def run() -> tuple[torch.Tensor, ...]:
        append(inputs.k, inputs.v, *written, inputs.lengths)
        return written

    return Prepared(run=run)


def _formula(inputs: Int4KvAppendInputs) -> Callable[..., torch.Tensor]:
    return _one_token if inputs.k.shape[2] == 1 else _from_a_group_on


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
    whole = tokens // _GROUP * _GROUP
    first = lengths - tokens
    _assign(k_codes, first, _packed_keys(codes := _quantized(_by_group(k[:, :, :whole]))))
    _assign(k_scales, first // _GROUP, torch.stack(codes[1:], dim=3))
    _assign(v_codes, first, _packed(values := _quantized(_by_channels(v[:, :, :whole]))))
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
    closes = (lengths % _GROUP == 0)[:, None, None, None]
    row = place % _GROUP
    is_new = (torch.arange(_GROUP, device=k.device) == row[:, None])[:, None, :, None]
    with_k, with_v = torch.where(is_new, k, k_window), torch.where(is_new, v, v_window)
    first = place // _GROUP * _GROUP
    codes, values = _quantized(_by_group(with_k)), _quantized(_by_channels(with_v))
    for held, at, new in (
        (k_codes, first, _packed_keys(codes)),
        (k_scales, first // _GROUP, torch.stack(codes[1:], dim=3)),
        (v_codes, first, _packed(values)),
        (v_scales, first, torch.stack(values[1:], dim=-1)),
    ):
        old = held[_places(held, at, new.shape[2])]
        _assign(held, at, torch.where(closes.reshape(-1, *[1] * (old.dim() - 1)), new, old))
    k_window.copy_(torch.where(closes, k_window, with_k))
    v_window.copy_(torch.where(closes, v_window, with_v))
    return k_codes


def _by_group(k: torch.Tensor) -> torch.Tensor:
    """(batch, heads, groups, head_dim, 32): the 32 keys of a channel last."""
    return k.unflatten(2, (k.shape[2] // _GROUP, _GROUP)).transpose(-1, -2)


def _by_channels(v: torch.Tensor) -> torch.Tensor:
    """(batch, heads, tokens, groups, 32): 32 channels of a token last."""
    return v.unflatten(3, (v.shape[3] // _GROUP, _GROUP))


def _quantized(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes like x, scales and zeros of the numbers along the last dimension."""
    numbers = x.float()
    least, most = numbers.amin(-1), numbers.amax(-1)
    zeros, scales = least.half(), ((most - least) / 15).half()
    steps = (numbers - zeros.float()[..., None]) / scales.float()[..., None]
    return steps.round().clamp(0, 15).to(torch.uint8), scales, zeros


def _packed_keys(quantized: tuple[torch.Tensor, ...]) -> torch.Tensor:
    codes = quantized[0].transpose(-1, -2).flatten(2, 3)
    return codes[..., 0::2] | codes[..., 1::2] << 4


def _packed(quantized: tuple[torch.Tensor, ...]) -> torch.Tensor:
    codes = quantized[0].flatten(3)
    return codes[..., 0::2] | codes[..., 1::2] << 4


def _places(held: torch.Tensor, first: torch.Tensor, count: int) -> tuple[torch.Tensor, ...]:
    """Of each sequence and head `count` places from `first` on."""
    batch, heads = held.shape[:2]
    each_batch = torch.arange(batch, device=held.device)[:, None, None]
    each_head = torch.arange(heads, device=held.device)[None, :, None]
    return each_batch, each_head, (first[:, None] + torch.arange(count, device=held.device))[:, None, :]


def _assign(held: torch.Tensor, first: torch.Tensor, new: torch.Tensor) -> None:
    held[_places(held, first, new.shape[2])] = new
