"""flash_attention, and decode_attention for a few new tokens, as an attention implementation of transformers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import causal_mask_function, sliding_window_causal_mask_function

from ..modules.causal_attention import causal_attention, causal_attention_to

ATTENTION = "warpwatch"
# Options of attention that some models use and the kernel does not support.
_UNSUPPORTED = ("position_bias", "s_aux", "softcap", "output_attentions")


def register_attention() -> str:
    """Register `attn_implementation="warpwatch"` with transformers; returns that name.

    For an existing model: `model.set_attn_implementation(register_attention())`. Supports causal decoders, also with a
    sliding window, in batches padded on the left or right, and training where flash_attention has a gradient. Padding
    costs one copy of the mask to the host per forward pass and one launch per sequence and layer. With a cache whose
    length is a tensor (GraphCache, or transformers' own StaticCache) batches have no padding, and without an
    attention_mask a step of up to 8 tokens can be captured in a CUDA graph.
    """
    AttentionInterface.register(ATTENTION, _attention_forward)
    AttentionMaskInterface.register(ATTENTION, _mask)
    return ATTENTION


@dataclass(frozen=True, slots=True)
class Padding:
    """The positions begin .. end of `length` that are a sequence's tokens. Takes the place of a mask tensor."""

    length: int
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Filled:
    """Number of filled positions of a preallocated cache, new tokens included. Takes the place of a mask tensor."""

    length: int | torch.Tensor  # a tensor () if only the device knows it
    ndim: ClassVar[int] = 4  # that of a mask which generate() prepares; it is passed back to _mask


def _mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | torch.Tensor = 0,
    kv_offset: int | torch.Tensor = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: Filled | torch.Tensor | None = None,
    **_options: Any,
) -> Padding | Filled | None:
    """None if every sequence sees all keys up to its own position, else a description of what it sees.

    transformers calls this once per forward pass for each kind of layer. Attention gets kv_length keys, of which the
    last q_length are new, unless q_offset gives the number of earlier keys and the rest is unused capacity; a
    sliding-window cache has dropped the oldest kv_offset keys. The layer passes the window itself to attention.
    Raises NotImplementedError for a mask that is not causal or has holes, and for padding or a window with such
    capacity.
    """
    if mask_function is not causal_mask_function and not _is_plain_window(mask_function):
        raise NotImplementedError(
            f"{ATTENTION} attention: only the plain causal mask is implemented, and this model or batch asks for "
            "another (packed sequences, or attention to both sides); use attn_implementation='sdpa'"
        )
    if isinstance(attention_mask, Filled):
        return attention_mask
    padded = attention_mask is not None and not bool(attention_mask.all())
    moving = isinstance(q_offset, torch.Tensor) or isinstance(kv_offset, torch.Tensor)
    if moving or q_offset + q_length != kv_offset + kv_length:
        if padded or mask_function is not causal_mask_function:
            raise NotImplementedError(
                f"{ATTENTION} attention: neither padding nor a sliding window is implemented with a cache that returns "
                "room which nothing has been written to, as GraphCache and StaticCache do; "
                "pass past_key_values=ContiguousCache(model.config, max_length)"
            )
        filled = q_offset + q_length  # int32 as attention takes it: converted once for all layers
        return Filled(filled.to(torch.int32) if isinstance(filled, torch.Tensor) else filled)
    if attention_mask is None or not padded:
        return None
    positions = kv_offset + kv_length
    if tuple(attention_mask.shape) != (batch_size, positions):
        raise ValueError(
            f"{ATTENTION} attention: attention_mask must cover all positions, those in the cache too, with shape "
            f"[{batch_size}, {positions}], got {list(attention_mask.shape)}"
        )
    attention_mask = attention_mask[:, kv_offset:]
    return Padding(kv_length, tuple(_span(tokens) for tokens in attention_mask.tolist()))


def _is_plain_window(mask_function: Callable[..., Any]) -> bool:
    """Whether this is transformers' sliding window on a causal mask, with nothing added.

    Such functions are anonymous closures, identified by the code of the functions they combine.
    """
    plain = sliding_window_causal_mask_function(1)
    return _codes(mask_function) == _codes(plain)


def _codes(mask_function: Callable[..., Any]) -> list[Any]:
    cells = [cell.cell_contents for cell in getattr(mask_function, "__closure__", None) or ()]
    parts = [part for cell in cells if isinstance(cell, tuple) for part in cell]
    return [getattr(part, "__code__", part) for part in (mask_function, *parts)]


def _span(tokens: list[bool]) -> tuple[int, int]:
    begin = tokens.index(True) if True in tokens else 0
    end = begin + sum(tokens)
    if not all(tokens[begin:end]):
        raise NotImplementedError(
            f"{ATTENTION} attention: the tokens of a sequence must stand together, with padding on one side, but an "
            "attention_mask has holes; pad on the left to generate, or use attn_implementation='sdpa'"
        )
    return begin, end


def _attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Padding | Filled | torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """(batch, seq_q, heads_q, head_dim), and None for the weights; query, key, value (batch, heads, seq, head_dim).

    Raises NotImplementedError for options that the kernel does not support.
    """
    asked = [name for name in _UNSUPPORTED if options.get(name)]
    if dropout:
        asked.append("dropout")
    if isinstance(attention_mask, torch.Tensor):
        asked.append("a 4-dimensional attention_mask")
    if not (getattr(module, "is_causal", True) if is_causal is None else is_causal):
        asked.append("attention that is not causal")
    if asked:
        raise NotImplementedError(
            f"{ATTENTION} attention: {', '.join(asked)} not implemented; use attn_implementation='sdpa' or 'eager'"
        )
    window = options.get("sliding_window")
    if isinstance(attention_mask, Padding):
        out = _padded(query, key, value, attention_mask, scaling, window)
    elif isinstance(attention_mask, Filled):
        out = _filled(query, key, value, attention_mask.length, scaling)
    else:
        out = causal_attention(query, key, value, scaling, window)
    return out.transpose(1, 2), None


def _filled(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, length: int | torch.Tensor, scaling: float | None
) -> torch.Tensor:
    if isinstance(length, int):
        return causal_attention(query, key[:, :, :length], value[:, :, :length], scaling)
    lengths = length.to(query.device, torch.int32).expand(query.shape[0]).contiguous()
    return causal_attention_to(query, key, value, lengths, scaling)


def _padded(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    padding: Padding,
    scaling: float | None,
    window: int | None,
) -> torch.Tensor:
    """Attend without the padding, equally padded sequences in one launch; queries that are padding get zeros."""
    out = torch.zeros_like(query)
    seen_before = padding.length - query.shape[2]
    for span in sorted(set(padding.spans)):
        rows = [row for row, other in enumerate(padding.spans) if other == span]
        begin, end = span
        first, last = max(begin - seen_before, 0), end - seen_before
        if first >= last:
            continue  # none of these queries is a token
        # A slice if the sequences are adjacent, else a copy.
        these = slice(rows[0], rows[-1] + 1) if rows[-1] - rows[0] + 1 == len(rows) else rows
        queries, keys, values = query[these, :, first:last], key[these, :, begin:end], value[these, :, begin:end]
        out[these, :, first:last] = causal_attention(queries, keys, values, scaling, window)
    return out
