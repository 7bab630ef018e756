"""max_length: a bound of lengths, by which decode attention divides its work. It changes no result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from perf_suite.benchmarks.decode_attention import decode_attention as reference
from warpwatch import kernels
from warpwatch.kernels.modules import Int4KVCache, Int8KVCache, PagedKVCache

from .test_flash_attention import assert_attends, inputs
from .test_int4_kv import quantized as in_4_bits
from .test_int8_kv import quantized as in_8_bits
from .test_paged_decode_attention import paged

CAPACITY = 2048
LENGTHS = (40, 500)
OPERATORS = ["decode_attention", "paged_decode_attention", "int8_decode_attention", "int4_decode_attention"]


def arguments(operator: str, device: str) -> tuple[torch.Tensor, ...]:
    """Two sequences of 40 and 500 keys in a cache with room for 2048."""
    q, k, v = inputs(device, torch.float16, (1, CAPACITY), heads=(4, 2))
    lengths = torch.tensor(LENGTHS, dtype=torch.int32, device=device)
    if operator == "paged_decode_attention":
        return (q, *paged(k, v, 64), lengths)
    if operator == "int8_decode_attention":
        return (q, *in_8_bits(k, v, spare=0), lengths)
    if operator == "int4_decode_attention":
        return (q, *in_4_bits(k, v, lengths, spare=0), lengths)
    return (q, k, v, lengths)


@pytest.mark.parametrize("max_length", [500, CAPACITY, 100, 1, 0], ids=["longest", "capacity", "100", "1", "0"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_bound_right_or_wrong_changes_no_result(operator: str, max_length: int, device: str) -> None:
    tensors = arguments(operator, device)
    without = getattr(kernels, operator)(*tensors)
    out = getattr(kernels, operator)(*tensors, max_length=max_length)
    torch.testing.assert_close(out, without, rtol=2e-3, atol=2e-4)  # parts are added in another order


def test_a_sequence_beyond_the_bound_is_attended_whole(device: str) -> None:
    q, k, v, lengths = arguments("decode_attention", device)
    assert_attends(kernels.decode_attention(q, k, v, lengths, max_length=64), reference(q, k, v, lengths))


@pytest.mark.parametrize("max_length", [-1, CAPACITY + 1])
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_bound_without_sense_is_refused(operator: str, max_length: int, device: str) -> None:
    tensors = arguments(operator, device)
    with pytest.raises(RuntimeError) as refused:
        getattr(kernels, operator)(*tensors, max_length=max_length)
    assert str(refused.value).splitlines()[0] == (
        f"{operator}: max_length must be from 0 to 2048, the keys that a sequence has room for, got {max_length}"
    )


def test_a_bound_of_lengths_that_there_are_not_is_refused(device: str) -> None:
    q, k, v, _ = arguments("decode_attention", device)
    with pytest.raises(RuntimeError, match="max_length bounds lengths, and there are none; leave it out"):
        kernels.decode_attention(q, k, v, max_length=500)


@pytest.mark.parametrize("operator", OPERATORS)
def test_are_well_behaved_operators_with_a_bound(operator: str, device: str) -> None:
    tensors = arguments(operator, device)
    torch.library.opcheck(getattr(torch.ops.warpwatch, operator).default, tensors, {"max_length": 500})


def test_a_bound_that_grows_is_compiled_for_once(device: str) -> None:
    q, k, v, lengths = arguments("decode_attention", device)
    compiled = []

    def backend(module: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., Any]:
        compiled.append(module)
        return module.forward

    @torch.compile(backend=backend, fullgraph=True)
    def attend(max_length: int) -> torch.Tensor:
        return kernels.decode_attention(q, k, v, lengths, max_length=max_length)

    for max_length in range(500, 508):
        attend(max_length)
    assert len(compiled) <= 2  # the first bound as a constant, all others as one that varies


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_bound_saves_the_workspace_of_parts(operator: str, cuda: str) -> None:
    tensors = arguments(operator, cuda)

    def most_bytes(**options: int) -> int:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        getattr(kernels, operator)(*tensors, **options)
        return torch.cuda.max_memory_allocated() - before

    assert most_bytes(max_length=100) < most_bytes(max_length=500) < most_bytes()


def test_a_cuda_graph_stays_right_beyond_its_bound(cuda: str) -> None:
    q, k, v, lengths = arguments("decode_attention", cuda)
    kernels.decode_attention(q, k, v, lengths, max_length=500)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = kernels.decode_attention(q, k, v, lengths, max_length=500)
    for longest in (1, 500, CAPACITY):
        lengths.fill_(longest)
        graph.replay()
        assert_attends(out, reference(q, k, v, lengths))


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_triton_twin_takes_and_refuses_the_same(
    operator: str, device: str, twin: Callable[[str], Callable[..., torch.Tensor]]
) -> None:
    tensors = arguments(operator, device)
    with pytest.raises(RuntimeError, match=f"{operator}: max_length must be from 0 to 2048, .*, got 2049"):
        twin(operator)(*tensors, max_length=CAPACITY + 1)
    if device == "cuda":
        out = twin(operator)(*tensors, max_length=100)
        torch.testing.assert_close(out, twin(operator)(*tensors), rtol=4e-3, atol=1e-3)


def test_the_triton_twin_divides_by_the_bound() -> None:
    configs = pytest.importorskip("warpwatch.kernels.triton.decode_attention_split")

    def splits(keys: int) -> int:
        config = configs.decode_attention_config(key_heads=4, rows=2, keys=keys, row_bytes=128)
        return int(config.splits)

    assert splits(100) == 1 < splits(500) < splits(CAPACITY)


class Bounds(TorchDispatchMode):
    """The max_length of each call of an operator of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "warpwatch" and "decode_attention" in str(func):
            self.found.append(args[-1])
        return func(*args, **(kwargs or {}))


def new_tokens(device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return inputs(device, torch.float16, (3, 3), heads=(4, 2))


def test_caches_of_fewer_bits_pass_their_length(device: str) -> None:
    for kind in (Int8KVCache, Int4KVCache):
        cache = kind(2, 2, CAPACITY, 64, dtype=torch.float16, device=device)
        with Bounds() as bounds, torch.no_grad():
            cache.attend(*new_tokens(device))
            cache.attend(*new_tokens(device))
        assert bounds.found == [3, 6]


def test_a_cache_in_pages_passes_the_room_of_its_pages(device: str) -> None:
    cache = PagedKVCache(2, 2, CAPACITY, 64, page_size=16, dtype=torch.float16, device=device)
    with Bounds() as bounds, torch.no_grad():
        cache.attend(*new_tokens(device))
        cache.reserve(100, 1)  # what the replays of a CUDA graph will fill
        cache.attend(*new_tokens(device))
    assert bounds.found == [16, 112]
