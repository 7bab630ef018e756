"""Inputs of int4_decode_attention."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.decode_attention import decode_attention as reference
from ..references.int4_kv import (
    GROUP,
    int4_dequantize_keys,
    int4_dequantize_values,
    int4_quantize_keys,
    int4_quantize_values,
    with_window,
)


@dataclass(slots=True, kw_only=True)
class Int4DecodeInputs:
    """q (batch, heads_q, seq_q, head_dim) and a full cache in KIVI's layout, as int4_decode_attention takes it."""

    q: torch.Tensor
    k_codes: torch.Tensor
    v_codes: torch.Tensor
    k_scales: torch.Tensor
    v_scales: torch.Tensor
    k_window: torch.Tensor
    v_window: torch.Tensor
    lengths: torch.Tensor  # (batch), all the same

    def activations(self) -> tuple[torch.Tensor, ...]:
        """The queries. The baselines hold the cache in another form, so it stays, as weights do."""
        return (self.q,)

    def cache(self) -> tuple[torch.Tensor, ...]:
        """The arguments between q and lengths."""
        return (self.k_codes, self.v_codes, self.k_scales, self.v_scales, self.k_window, self.v_window)

    def dequantized(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values in float64, (batch, heads_kv, capacity, head_dim)."""
        k = int4_dequantize_keys(self.k_codes, self.k_scales)
        v = int4_dequantize_values(self.v_codes, self.v_scales)
        return with_window(k, self.k_window, self.lengths), with_window(v, self.v_window, self.lengths)

    def expected(self) -> torch.Tensor:
        """The reference of this call: attention over what the cache stands for."""
        return reference(self.q, *self.dequantized(), self.lengths)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> Int4DecodeInputs:
    """Normal q, keys and values, quantized by the reference; the window as full as seq_kv leaves it."""
    p = workload.parameters
    device = generator.device
    capacity = -(-p["seq_kv"] // GROUP) * GROUP

    def normal(heads: int, seq: int) -> torch.Tensor:
        return torch.randn((p["batch"], heads, seq, p["head_dim"]), generator=generator, device=device, dtype=dtype)

    q = normal(p["heads_q"], p["seq_q"])
    k_codes, k_scales = int4_quantize_keys(normal(p["heads_kv"], capacity))
    v_codes, v_scales = int4_quantize_values(normal(p["heads_kv"], capacity))
    return Int4DecodeInputs(
        q=q,
        k_codes=k_codes,
        v_codes=v_codes,
        k_scales=k_scales,
        v_scales=v_scales,
        k_window=normal(p["heads_kv"], GROUP),
        v_window=normal(p["heads_kv"], GROUP),
        lengths=torch.full((p["batch"],), p["seq_kv"], dtype=torch.int32, device=device),
    )
