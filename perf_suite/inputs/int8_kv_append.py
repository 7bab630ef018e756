"""Inputs of int8_kv_append."""

from dataclasses import dataclass

import torch

from warpbench.output import Bounds
from warpbench.workload import Workload

from ..references.int8_kv import int8_dequantize
from ..references.int8_kv_append import int8_kv_append as reference


@dataclass(slots=True, kw_only=True)
class Int8KvAppendInputs:
    """A cache as int8_kv_append takes it; k, v (batch, heads, tokens, head_dim)."""

    k_codes: torch.Tensor
    v_codes: torch.Tensor
    k_scales: torch.Tensor
    v_scales: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    lengths: torch.Tensor  # (batch) int32, the new tokens among them

    def activations(self) -> tuple[torch.Tensor, ...]:
        """New rows, and the cache that they are written to."""
        return (*self.written(), self.k, self.v)

    def written(self) -> tuple[torch.Tensor, ...]:
        """The cache: a row beside the new ones that changed is as wrong as a new one that is missing."""
        return (self.k_codes, self.v_codes, self.k_scales, self.v_scales)

    def decoded(self, written: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Keys, values, and the scales of both, which say what a code stands for later as well."""
        k_codes, v_codes, k_scales, v_scales = written
        rows = int8_dequantize(k_codes, k_scales), int8_dequantize(v_codes, v_scales)
        return (*rows, k_scales.double(), v_scales.double())

    def expected(self) -> tuple[Bounds, ...]:
        """The reference of this call: the cache as it leaves it."""
        return reference(self.written(), self.k, self.v, self.lengths)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> Int8KvAppendInputs:
    """Normal keys and values, a cache of any codes with scales in 0.5 .. 1.5, sequences of any length."""
    p = workload.parameters
    device = generator.device
    rows = (p["batch"], p["heads"], p["tokens"], p["head_dim"])
    places = (p["batch"], p["heads"], p["capacity"])
    room = p["capacity"] - p["tokens"] + 1
    k, v = torch.randn((2, *rows), generator=generator, device=device, dtype=dtype)
    codes = torch.randint(1, 256, (2, *places, p["head_dim"]), generator=generator, device=device, dtype=torch.uint8)
    k_codes, v_codes = codes.view(torch.int8)
    k_scales, v_scales = torch.rand((2, *places), generator=generator, device=device) + 0.5
    return Int8KvAppendInputs(
        k_codes=k_codes,
        v_codes=v_codes,
        k_scales=k_scales,
        v_scales=v_scales,
        k=k,
        v=v,
        lengths=(p["tokens"] + torch.randint(0, room, (p["batch"],), generator=generator, device=device)).int(),
    )
