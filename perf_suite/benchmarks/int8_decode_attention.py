"""int8_decode_attention, a decode step over an 8-bit cache: half of decode_attention's bytes."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warpbench import Case, Prepared, baseline, kernel
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch

from .. import warpwatch_benchmark
from ..attention_masks import causal_pairs
from ..compiled.watched_kernels import Watched
from ..quantized_kv import int8_dequantize, int8_quantize
from . import decode_attention

if TYPE_CHECKING:
    from warpbench.draw import Draw

_SCALE_BYTES = ELEMENT_BYTES["fp32"]


def cost(*, batch: int, heads_q: int, heads_kv: int, seq_q: int, keys: int, head_dim: int, element_bytes: int) -> Cost:
    """decode_attention's FLOPs; a byte an element of the cache, and an fp32 scale for each key and each value."""
    queries = batch * heads_q * seq_q * head_dim
    rows = 2 * batch * heads_kv * keys
    return Cost(
        flops=4 * batch * heads_q * head_dim * causal_pairs(seq_q, keys),
        bytes=2 * queries * element_bytes + rows * (head_dim + _SCALE_BYTES),
    )


def quantized_case(
    cost: Callable[..., Cost],
    device: str,
    dtype: str,
    energy_of: Sequence[str] = (),
    *,
    batch: int = 1,
    heads: int = 32,
    heads_kv: int | None = None,  # as many as heads
    seq_len: int = 1,  # new tokens
    seq_len_kv: int,  # keys of each sequence, the new tokens' own among them
    head_dim: int = 128,
) -> Case:
    """decode_attention's case over quantized keys and values. Raises ValueError as it does."""
    unquantized = decode_attention.case(
        device,
        dtype,
        batch=batch,
        heads=heads,
        heads_kv=heads_kv,
        seq_len=seq_len,
        seq_len_kv=seq_len_kv,
        head_dim=head_dim,
    )
    work = cost(
        batch=batch,
        heads_q=heads,
        heads_kv=unquantized.heads_kv,
        seq_q=seq_len,
        keys=seq_len_kv,
        head_dim=head_dim,
        element_bytes=ELEMENT_BYTES[dtype],
    )
    return Case(
        unquantized.name,
        device=device,
        dtype=dtype,
        # The reference attends over the dequantized keys and values: what is left is decode_attention's rounding.
        tolerance=unquantized.tolerance,
        bytes=work.bytes,
        flops=work.flops,
        energy_of=energy_of,
        **unquantized.shape,
    )


case = functools.partial(quantized_case, cost)


class QuantizedDecodeAttention(warpwatch_benchmark.OperatorBenchmark, ABC):
    """decode_attention over keys and values as integers."""

    reference_in_float64 = False  # it widens the cache itself

    @staticmethod
    @abstractmethod
    def dequantized(*unnamed: Any, **cache: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values in float64, (batch, heads_kv, capacity, head_dim)."""

    def reference(self, q: torch.Tensor, lengths: torch.Tensor, **cache: torch.Tensor) -> torch.Tensor:
        """The reference of decode_attention over the dequantized keys and values, in float64."""
        return decode_attention.decode_attention(q, *self.dequantized(lengths=lengths, **cache), lengths)

    @kernel(binds=True, devices=["cuda"])
    def unquantized(self, **inputs: torch.Tensor) -> Callable[[], Any]:
        """The commit's decode_attention over the same keys and values in the dtype of q: what the format saves."""
        return decode_attention.DecodeAttention().warpwatch(**self._unquantized(**inputs))

    @baseline(binds=True)
    def sdpa(self, **inputs: torch.Tensor) -> Prepared:
        """scaled_dot_product_attention over the same keys and values in the dtype of q, dequantized untimed."""
        return decode_attention.DecodeAttention().sdpa(**self._unquantized(**inputs))

    @baseline(binds=True)
    def eager(self, **inputs: torch.Tensor) -> Callable[[], Any]:
        """Plain PyTorch over the same keys and values in the dtype of q, dequantized untimed."""
        return decode_attention.DecodeAttention().eager(**self._unquantized(**inputs))

    def _unquantized(self, q: torch.Tensor, lengths: torch.Tensor, **cache: torch.Tensor) -> dict[str, torch.Tensor]:
        """q, keys and values in the dtype of q, as decode_attention takes them."""
        length = int(lengths[0])  # that of all
        k, v = (x[:, :, :length].to(q.dtype).contiguous() for x in self.dequantized(lengths=lengths, **cache))
        return {"q": q, "k": k, "v": v}


class Int8DecodeAttention(QuantizedDecodeAttention):
    """decode_attention over keys and values as 8-bit integers, a scale for each token and head; out like q.

    q (batch, heads_q, seq_q, head_dim); k_codes, v_codes int8 (batch, heads_kv, seq_kv, head_dim); k_scales, v_scales
    float32 (batch, heads_kv, seq_kv); lengths int32 (batch).
    """

    watched = Watched(
        kernels=("int8_decode_attention_sm75_kernel", "int8_decode_attention_sm80_kernel"),
        twins=("_int8_decode_attention", "_int8_combine_parts"),
        sources=(
            "int8_decode_attention/int8_decode_attention_sm75.cu",
            "int8_decode_attention/int8_decode_attention_sm80.cu",
        ),
    )
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=1024),  # Llama 3 8B
        case("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=4096, energy_of=("warpwatch", "sdpa")),
        case("cuda", "bf16", batch=8, heads=32, heads_kv=8, seq_len_kv=4096),
        case("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=16384),
        case("cuda", "fp16", batch=1, heads=32, heads_kv=8, seq_len_kv=32768),
        case("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len=4, seq_len_kv=4096),  # speculative decoding
        case("cuda", "fp16", batch=8, heads=32, seq_len_kv=1024),  # Llama 2 7B
        case("cpu", "fp32", batch=2, heads=8, heads_kv=2, seq_len_kv=512, head_dim=64),
    )
    smallest = {"heads": 1, "seq_len_kv": 16, "head_dim": 64}

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal q, keys and values, quantized by the reference.

        The cache stays from call to call, as weights do: the baselines hold it in another form.
        """
        cached = (case.batch, case.heads_kv, case.seq_kv, case.head_dim)
        q = draw.activation(case.batch, case.heads_q, case.seq_q, case.head_dim)
        k_codes, k_scales = int8_quantize(draw.activation(*cached))
        v_codes, v_scales = int8_quantize(draw.activation(*cached))
        lengths = torch.full((case.batch,), case.seq_kv, dtype=torch.int32, device=draw.device)
        return {
            "q": q,
            "k_codes": draw.constant(k_codes),
            "v_codes": draw.constant(v_codes),
            "k_scales": draw.constant(k_scales),
            "v_scales": draw.constant(v_scales),
            "lengths": draw.constant(lengths),
        }

    @staticmethod
    def dequantized(
        k_codes: torch.Tensor,
        v_codes: torch.Tensor,
        k_scales: torch.Tensor,
        v_scales: torch.Tensor,
        lengths: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values in float64."""
        del lengths  # all of the cache is in use
        return int8_dequantize(k_codes, k_scales), int8_dequantize(v_codes, v_scales)
