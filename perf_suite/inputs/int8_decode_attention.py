"""Inputs of int8_decode_attention."""

from dataclasses import dataclass

import torch

from warpbench.workload import Workload

from ..references.decode_attention import decode_attention as reference
from ..references.int8_kv import int8_dequantize, int8_quantize


@dataclass(slots=True, kw_only=True)
class Int8DecodeInputs:
    """q (batch, heads_q, seq_q, head_dim) and a full cache of 8-bit integers, as int8_decode_attention takes it."""

    q: torch.Tensor
    k_codes: torch.Tensor
    v_codes: torch.Tensor
    k_scales: torch.Tensor
    v_scales: torch.Tensor
    lengths: torch.Tensor  # (batch), all the same

    def activations(self) -> tuple[torch.Tensor, ...]:
        """The queries. The baselines hold the cache in another form, so it stays, as weights do."""
        return (self.q,)

    def cache(self) -> tuple[torch.Tensor, ...]:
        """The arguments between q and lengths."""
        return (self.k_codes, self.v_codes, self.k_scales, self.v_scales)

    def dequantized(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values in float64."""
        return int8_dequantize(self.k_codes, self.k_scales), int8_dequantize(self.v_codes, self.v_scales)

    def expected(self) -> torch.Tensor:
        """The reference of this call: attention over what the codes stand for."""
        return reference(self.q, *self.dequantized(), self.lengths)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> Int8DecodeInputs:
    """Normal q, keys and values, quantized by the reference."""
    p = workload.parameters
    device = generator.device

    def normal(heads: int, seq: int) -> torch.Tensor:
        return torch.randn((p["batch"], heads, seq, p["head_dim"]), generator=generator, device=device, dtype=dtype)

    q = normal(p["heads_q"], p["seq_q"])
    k_codes, k_scales = int8_quantize(normal(p["heads_kv"], p["seq_kv"]))
    v_codes, v_scales = int8_quantize(normal(p["heads_kv"], p["seq_kv"]))
    return Int8DecodeInputs(
        q=q,
        k_codes=k_codes,
        v_codes=v_codes,
        k_scales=k_scales,
        v_scales=v_scales,
        lengths=torch.full((p["batch"],), p["seq_kv"], dtype=torch.int32, device=device),
    )
