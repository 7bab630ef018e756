"""Implementations of kv_append; each works in place and returns both caches."""

from collections.abc import Callable

import torch

from warpbench.prepared import Prepared
from warpbench.torch_compile import compiled

from ..inputs.kv_append import KvAppendInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: KvAppendInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    return _in_place(warpwatch_operator("kv_append"), inputs)


def triton(inputs: KvAppendInputs) -> Prepared:
    """Its Triton twin."""
    return _in_place(triton_operator("kv_append"), inputs)


def eager(inputs: KvAppendInputs) -> Prepared:
    """Indexed assignment in plain PyTorch."""
    return _in_place(_assigned, inputs)


def torch_compile(inputs: KvAppendInputs) -> Prepared:
    """The same through torch.compile."""
    return _in_place(compiled(_assigned, inputs.caches, inputs.k), inputs)


def _in_place(append: Callable[..., object], inputs: KvAppendInputs) -> Prepared:
    k_cache, v_cache = inputs.caches

    def run() -> torch.Tensor:
        append(k_cache, v_cache, inputs.k, inputs.v, inputs.positions)
        return inputs.caches

    return Prepared(run=run)


def _assigned(
    k_cache: torch.Tensor, v_cache: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor
) -> torch.Tensor:
    batch, heads, tokens, _ = k.shape
    places = (positions[:, None] + torch.arange(tokens, device=k.device))[:, None, :]
    batches = torch.arange(batch, device=k.device)[:, None, None]
    each_head = torch.arange(heads, device=k.device)[None, :, None]
    k_cache[batches, each_head, places] = k
    v_cache[batches, each_head, places] = v
    return k_cache
