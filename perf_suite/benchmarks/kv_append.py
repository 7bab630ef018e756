"""kv_append: moves bytes and computes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch

from .. import warpwatch_benchmark
from ..compiled.watched_kernels import Watched
from ..language_models import LLAMA_3_8B

if TYPE_CHECKING:
    from warpbench.draw import Draw

# A copy is exact. One wrong element among all of a case's makes an error far above this.
_TOLERANCE = 1e-9


def cost(*, batch: int, heads: int, tokens: int, head_dim: int, element_bytes: int) -> Cost:
    """No FLOP at all; new keys and values read, and written to the caches. A position a sequence is 8 bytes."""
    return Cost(flops=0, bytes=4 * batch * heads * tokens * head_dim * element_bytes + 8 * batch)


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
    """So many tokens' keys and values into caches (batch, heads, capacity, head_dim), each sequence at its own place.

    Raises ValueError if they do not fit.
    """
    if tokens > capacity:
        raise ValueError(f"{tokens} tokens do not fit a cache of capacity {capacity}")
    sizes: dict[str, Any] = {"batch": batch, "heads": heads, "tokens": tokens, "head_dim": head_dim}
    work = cost(**sizes, element_bytes=ELEMENT_BYTES[dtype])
    return Case(
        f"{device}-{dtype}-b{batch}-h{heads}-n{tokens}-d{head_dim}-capacity{capacity}",
        device=device,
        dtype=dtype,
        tolerance=_TOLERANCE,
        bytes=work.bytes,
        capacity=capacity,
        **sizes,
    )


class KvAppend(warpwatch_benchmark.FormulaBenchmark):
    """New keys and values into caches, in place.

    caches (2, batch, heads, capacity, head_dim) holds keys and values; k, v (batch, heads, tokens, head_dim);
    positions (batch) int64, where each sequence's first new token goes. The whole of the caches is compared: a row
    that changed without being new is as wrong as a new one that is missing.
    """

    watched = Watched(kernels=("kv_append_rows",), twins=("_kv_append",), sources=("kv_append/kv_append.cu",))
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", batch=16, tokens=2048, capacity=3072),  # 268 MB: the end of a prefill
        case("cuda", "fp16", batch=32, tokens=2048, capacity=3072),
        case("cuda", "bf16", batch=16, tokens=2048, capacity=3072),
        case("cuda", "fp32", batch=8, tokens=2048, capacity=3072),
        case("cuda", "fp16", batch=1, tokens=2048, capacity=4096),
        case("cuda", "fp16", batch=64, tokens=1, capacity=256),  # a decode step of 64 sequences
        case("cuda", "fp16", batch=1, tokens=1, capacity=4096),
        case("cpu", "fp32", batch=2, tokens=64, capacity=128),
        case("cpu", "fp32", batch=16, tokens=1, capacity=64),
    )
    smallest = {"heads": 1, "tokens": 1, "capacity": 16}
    writes = ("caches",)

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal caches, keys and values; sequences begin where they have room, each elsewhere if there is enough."""
        room = case.capacity - case.tokens + 1
        order = torch.randperm(max(room, case.batch), generator=draw.generator, device=draw.device)
        return {
            "caches": draw.activation(2, case.batch, case.heads, case.capacity, case.head_dim),
            "k": draw.activation(case.batch, case.heads, case.tokens, case.head_dim),
            "v": draw.activation(case.batch, case.heads, case.tokens, case.head_dim),
            "positions": draw.constant(order[: case.batch] % room),
        }

    def reference(
        self, caches: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        """caches with k[b, :, t] at [0, b, :, positions[b] + t] and v[b, :, t] at [1, b, :, positions[b] + t]."""
        out = caches.clone()
        tokens = k.shape[2]
        for b, position in enumerate(positions.tolist()):
            out[0, b, :, position : position + tokens] = k[b]
            out[1, b, :, position : position + tokens] = v[b]
        return out

    @staticmethod
    def formula(
        k_cache: torch.Tensor, v_cache: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        """Indexed assignment in plain PyTorch."""
        new = rows_of(k_cache, positions, k.shape[2])
        k_cache[new] = k
        v_cache[new] = v
        return k_cache

    def call_of(
        self,
        append: Callable[..., object],
        caches: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        positions: torch.Tensor,
    ) -> Callable[[], None]:
        """What is timed."""
        k_cache, v_cache = caches  # once, for a view takes the host longer than the smallest copy takes the GPU

        def run() -> None:
            append(k_cache, v_cache, k, v, positions)

        return run


def rows_of(cache: torch.Tensor, first: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Index of rows first[b] .. first[b] + count - 1 of each sequence b and head, in a cache (batch, heads, rows, ...).

    It goes in front of the dimensions of a row.
    """
    batch, heads = cache.shape[:2]
    batches = torch.arange(batch, device=cache.device)[:, None, None]
    each_head = torch.arange(heads, device=cache.device)[None, :, None]
    return batches, each_head, (first[:, None] + torch.arange(count, device=cache.device))[:, None, :]
