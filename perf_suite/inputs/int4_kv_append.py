"""Inputs of int4_kv_append."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from warpbench.output import Bounds
from warpbench.workload import Workload

from ..references.int4_kv import GROUP, int4_dequantize_keys, int4_dequantize_values
from ..references.int4_kv_append import int4_kv_append as reference


@dataclass(slots=True, kw_only=True)
class Int4KvAppendInputs:
    """A cache as int4_kv_append takes it; k, v (batch, heads, tokens, head_dim)."""

    k_codes: torch.Tensor
    v_codes: torch.Tensor
    k_scales: torch.Tensor
    v_scales: torch.Tensor
    k_window: torch.Tensor
    v_window: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    lengths: torch.Tensor  # (batch) int32, the new tokens among them

    def activations(self) -> tuple[torch.Tensor, ...]:
        """New rows, and the cache that they are written to."""
        return (*self.written(), self.k, self.v)

    def written(self) -> tuple[torch.Tensor, ...]:
        """The cache: what changed beside the new tokens and their groups is as wrong as a new one that is missing."""
        return (self.k_codes, self.v_codes, self.k_scales, self.v_scales, self.k_window, self.v_window)

    def decoded(self, written: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Keys, values, the scales and zeros of both, and the windows."""
        k_codes, v_codes, *others = written
        k_scales, v_scales, *_ = others
        rows = int4_dequantize_keys(k_codes, k_scales), int4_dequantize_values(v_codes, v_scales)
        return (*rows, *(other.double() for other in others))

    def expected(self) -> tuple[Bounds, ...]:
        """The reference of this call: the cache as it leaves it."""
        return reference(self.written(), self.k, self.v, self.lengths)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> Int4KvAppendInputs:
    """Normal keys, values and windows, a cache of any codes with scales and zeros in 0.5 .. 1.5."""
    p = workload.parameters
    device = generator.device
    places = (p["batch"], p["heads"], p["capacity"])
    groups = (p["batch"], p["heads"], p["capacity"] // GROUP, 2, p["head_dim"])

    def normal(tokens: int) -> torch.Tensor:
        shape = (2, p["batch"], p["heads"], tokens, p["head_dim"])
        return torch.randn(shape, generator=generator, device=device, dtype=dtype)

    def scales(*shape: int) -> torch.Tensor:
        return (torch.rand(shape, generator=generator, device=device) + 0.5).half()

    bytes_of = (2, *places, p["head_dim"] // 2)
    k_codes, v_codes = torch.randint(1, 256, bytes_of, generator=generator, device=device, dtype=torch.uint8)
    k_window, v_window = normal(GROUP)
    k, v = normal(p["tokens"])
    return Int4KvAppendInputs(
        k_codes=k_codes,
        v_codes=v_codes,
        k_scales=scales(*groups),
        v_scales=scales(*places, p["head_dim"] // GROUP, 2),
        k_window=k_window,
        v_window=v_window,
        k=k,
        v=v,
        lengths=_lengths(p, generator).int(),
    )


def _lengths(p: Mapping[str, int], generator: torch.Generator) -> torch.Tensor:
    """As the workload says: a single token is the b-th of its group, the last one where b is 0; several begin one."""
    of_batch = (p["batch"],)
    if p["tokens"] > 1:
        room = (p["capacity"] - p["tokens"]) // GROUP + 1
        return p["tokens"] + GROUP * torch.randint(0, room, of_batch, generator=generator, device=generator.device)
    earlier = torch.randint(0, p["capacity"] // GROUP, of_batch, generator=generator, device=generator.device)
    place = torch.arange(p["batch"], device=generator.device) % GROUP
    return GROUP * earlier + torch.where(place == 0, GROUP, place)
