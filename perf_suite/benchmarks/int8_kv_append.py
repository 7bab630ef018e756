"""int8_kv_append: new keys and values into a cache of 8-bit integers."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch

from .. import warpwatch_benchmark
from ..compiled.watched_kernels import Watched
from ..language_models import LLAMA_3_8B
from ..quantized_kv import LEAST, int8_dequantize
from .kv_append import case as kv_append_case
from .kv_append import rows_of

if TYPE_CHECKING:
    from warpbench.draw import Draw
    from warpbench.output import Bounds

# The reference allows half a step around each value, so a right call has no error left.
_TOLERANCE = 1e-9
_FP32 = 2.0**-21  # of a quotient: its division may be off by two units in the last place of float32


def cost(*, batch: int, heads: int, tokens: int, head_dim: int, element_bytes: int) -> Cost:
    """Three FLOPs an element: largest magnitude, product, rounding.

    Elements read as they are, written as a byte each and a scale a row. A length a sequence is 4 bytes.
    """
    rows = 2 * batch * heads * tokens
    coded = head_dim + ELEMENT_BYTES["fp32"]
    return Cost(flops=3 * rows * head_dim, bytes=rows * (head_dim * element_bytes + coded) + 4 * batch)


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
    """kv_append's case with caches of codes. Raises ValueError as it does."""
    sizes: dict[str, Any] = {"batch": batch, "heads": heads, "tokens": tokens, "head_dim": head_dim}
    unquantized = kv_append_case(device, dtype, **sizes, capacity=capacity)
    work = cost(**sizes, element_bytes=ELEMENT_BYTES[dtype])
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


class QuantizedKvAppend(warpwatch_benchmark.FormulaBenchmark, ABC):
    """An append to caches of codes; the operator takes the written tensors in their order between v and lengths."""

    def call_of(
        self,
        append: Callable[..., object],
        k: torch.Tensor,
        v: torch.Tensor,
        lengths: torch.Tensor,
        **cache: torch.Tensor,
    ) -> Callable[[], None]:
        """What is timed."""
        written = tuple(cache[name] for name in self.writes)

        def run() -> None:
            append(k, v, *written, lengths)

        return run


class Int8KvAppend(QuantizedKvAppend):
    """New keys and values into caches of 8-bit codes with a scale a token and head, in place.

    k_codes, v_codes (batch, heads, capacity, head_dim) int8; k_scales, v_scales (batch, heads, capacity) fp32;
    k, v (batch, heads, tokens, head_dim); lengths (batch) int32, the new tokens among them. The whole of the caches is
    compared: a row that changed without being new is as wrong as a new one that is missing.
    """

    watched = Watched(kernels=("int8_kv_append_rows",), twins=("_int8_kv_append",), sources=("int8_kv/int8_kv.cu",))
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", batch=8, tokens=4096, capacity=4096),  # 201 MB: a prompt
        case("cuda", "fp16", batch=64, tokens=1, capacity=4096),  # a decode step of 64 sequences
        case("cuda", "fp16", batch=8, tokens=1, capacity=4096),
        case("cpu", "fp32", batch=2, tokens=64, capacity=128),
        case("cpu", "fp32", batch=16, tokens=1, capacity=64),
    )
    smallest = {"heads": 1, "tokens": 1, "capacity": 16}
    writes = ("k_codes", "v_codes", "k_scales", "v_scales")

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal keys and values, a cache of any codes with scales in 0.5 .. 1.5, sequences of any length."""
        places = (case.batch, case.heads, case.capacity)
        room = case.capacity - case.tokens + 1
        k, v = draw.activation(2, case.batch, case.heads, case.tokens, case.head_dim)
        codes = draw.integers(1, 256, (2, *places, case.head_dim), dtype=torch.uint8)
        k_codes, v_codes = codes.view(torch.int8)
        k_scales, v_scales = draw.uniform(2, *places, low=0.5, high=1.5, dtype=torch.float32)
        return {
            "k_codes": k_codes,
            "v_codes": v_codes,
            "k_scales": k_scales,
            "v_scales": v_scales,
            "k": k,
            "v": v,
            "lengths": draw.constant((case.tokens + draw.integers(0, room, (case.batch,))).int()),
        }

    def reference(
        self,
        k_codes: torch.Tensor,
        v_codes: torch.Tensor,
        k_scales: torch.Tensor,
        v_scales: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        lengths: torch.Tensor,
    ) -> tuple[Bounds, ...]:
        """Bounds of keys, of values, and of the scales of both.

        A new row x has the scale max |x| / 127 and codes that stand for x within half a scale. All else stays as it
        was.
        """
        keys, of_keys = _appended(k_codes, k_scales, k, lengths)
        values, of_values = _appended(v_codes, v_scales, v, lengths)
        return keys, values, of_keys, of_values

    def decode(
        self, k_codes: torch.Tensor, v_codes: torch.Tensor, k_scales: torch.Tensor, v_scales: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Keys, values, and the scales of both, on which the value of a code depends in later calls too."""
        rows = int8_dequantize(k_codes, k_scales), int8_dequantize(v_codes, v_scales)
        return (*rows, k_scales.double(), v_scales.double())

    @staticmethod
    def formula(
        k: torch.Tensor,
        v: torch.Tensor,
        k_codes: torch.Tensor,
        v_codes: torch.Tensor,
        k_scales: torch.Tensor,
        v_scales: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        """The formula and indexed assignments in plain PyTorch."""
        tokens = k.shape[2]
        new = rows_of(k_codes, lengths - tokens, tokens)
        k_codes[new], k_scales[new] = _quantized(k)
        v_codes[new], v_scales[new] = _quantized(v)
        return k_codes


def _appended(
    codes: torch.Tensor, scales: torch.Tensor, x: torch.Tensor, lengths: torch.Tensor
) -> tuple[Bounds, Bounds]:
    """Bounds of the values and of the scales of one cache."""
    from warpbench.output import Bounds

    rows = Bounds(values=int8_dequantize(codes, scales), slack=torch.zeros_like(codes, dtype=torch.float64))
    of_rows = Bounds(values=scales.double().clone(), slack=torch.zeros_like(scales, dtype=torch.float64))
    tokens = x.shape[2]
    for b, length in enumerate(lengths.tolist()):
        new = slice(length - tokens, length)
        magnitude = x[b].double().abs()
        scale = magnitude.amax(-1).clamp_min(LEAST) / 127
        rows.values[b, :, new] = x[b].double()
        rows.slack[b, :, new] = scale[..., None] / 2 + magnitude * _FP32
        of_rows.values[b, :, new] = scale
        of_rows.slack[b, :, new] = scale * _FP32
    return rows, of_rows


def _quantized(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows = x.float()
    scales = rows.abs().amax(-1) / 127
    return (rows / scales[..., None]).round().to(torch.int8), scales
