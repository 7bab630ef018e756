"""Implementations of int8_kv_append; each works in place and returns the whole cache."""

from collections.abc import Callable

import torch

from warpbench.prepared import Prepared
from warpbench.torch_compile import compiled

from ..inputs.int8_kv_append import Int8KvAppendInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: Int8KvAppendInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    return _in_place(warpwatch_operator("int8_kv_append"), inputs)


def triton(inputs: Int8KvAppendInputs) -> Prepared:
    """Its Triton twin."""
    return _in_place(triton_operator("int8_kv_append"), inputs)


def eager(inputs: Int8KvAppendInputs) -> Prepared:
    """The formula and indexed assignments in plain PyTorch."""
    return _in_place(_assigned, inputs)


def torch_compile(inputs: Int8KvAppendInputs) -> Prepared:
    """The same through torch.compile."""
    return _in_place(compiled(_assigned, inputs.k_codes, inputs.k), inputs)


def _in_place(append: Callable[..., object], inputs: Int8KvAppendInputs) -> Prepared:
    written = inputs.written()

    def run() -> tuple[torch.Tensor, ...]:
        append(inputs.k, inputs.v, *written, inputs.lengths)
        return written

    return Prepared(run=run)


def _assigned(
    k: torch.Tensor,
    v: torch.Tensor,
    k_codes: torch.Tensor,
    v_codes: torch.Tensor,
    k_scales: torch.Tensor,
    v_scales: torch.Tensor,
    lengths: torch.Tensor,
) -> torch.Tensor:
    batch, heads, tokens, _ = k.shape
    places = (lengths[:, None] - tokens + torch.arange(tokens, device=k.device))[:, None, :]
    batches = torch.arange(batch, device=k.device)[:, None, None]
    each_head = torch.arange(heads, device=k.device)[None, :, None]
    k_codes[batches, each_head, places], k_scales[batches, each_head, places] = _quantized(k)
    v_codes[batches, each_head, places], v_scales[batches, each_head, places] = _quantized(v)
    return k_codes


def _quantized(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows = x.float()
    scales = rows.abs().amax(-1) / 127
    return (rows / scales[..., None]).round().to(torch.int8), scales
