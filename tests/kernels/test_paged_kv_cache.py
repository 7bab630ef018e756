"""PagedKVCache: sequences in pages attend as they do in one piece."""

from __future__ import annotations

import pytest
import torch

from perf_suite.benchmarks.flash_attention import flash_attention as reference
from warpwatch.kernels.modules import KVCache, PagedKVCache, TransformerLayer

HEAD_DIM = 64


def dtype_on(device: str) -> torch.dtype:
    return torch.float16 if device == "cuda" else torch.float32


def cache_on(device: str, **sizes: int) -> PagedKVCache:
    return PagedKVCache(2, 2, 100, HEAD_DIM, **{"page_size": 16, **sizes}, dtype=dtype_on(device), device=device)


def tokens(device: str, new: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    q = torch.randn(2, 4, new, HEAD_DIM, dtype=dtype_on(device), device=device)
    k, v = torch.randn(2, 2, 2, new, HEAD_DIM, dtype=dtype_on(device), device=device)
    return q, k, v


@pytest.mark.parametrize("page_size", [16, 64])
def test_attends_as_a_cache_in_one_piece(page_size: int, device: str) -> None:
    paged = cache_on(device, page_size=page_size)
    seen_k, seen_v = [], []
    for new in (15, 1, 1, 8, 17, 3):  # below, at and above a page's end; decode and prefill
        q, k, v = tokens(device, new)
        out = paged.attend(q, k, v)
        seen_k.append(k)
        seen_v.append(v)
        expected = reference(q, torch.cat(seen_k, dim=2), torch.cat(seen_v, dim=2), True)
        torch.testing.assert_close(out.double(), expected, rtol=2e-3, atol=2e-3)
    keys, values = paged.gathered()
    assert torch.equal(keys, torch.cat(seen_k, dim=2))
    assert torch.equal(values, torch.cat(seen_v, dim=2))


def test_a_released_sequence_gives_its_pages_to_another(device: str) -> None:
    paged = cache_on(device, pages=6)
    _, k, v = tokens(device, 40)
    paged.append(k, v)
    assert paged.free_pages == 0
    with pytest.raises(RuntimeError, match="2 more pages are needed and 0 are free; release a sequence"):
        paged.append(*tokens(device, 9)[1:])
    paged.release(0)
    assert paged.free_pages == 3
    q, new_k, new_v = tokens(device, 5)
    out = paged.attend(q, new_k, new_v)  # the first begins anew, the second goes on
    assert paged.lengths.tolist() == [5, 45]
    torch.testing.assert_close(out[:1].double(), reference(q[:1], new_k[:1], new_v[:1], True), rtol=2e-3, atol=2e-3)
    both = torch.cat((k[1:], new_k[1:]), dim=2), torch.cat((v[1:], new_v[1:]), dim=2)
    torch.testing.assert_close(out[1:].double(), reference(q[1:], *both, True), rtol=2e-3, atol=2e-3)
    many_q, many_k, many_v = tokens(device, 11)  # sequences of unequal length, gathered
    out = paged.attend(many_q, many_k, many_v)
    first = torch.cat((new_k[:1], many_k[:1]), dim=2), torch.cat((new_v[:1], many_v[:1]), dim=2)
    torch.testing.assert_close(out[:1].double(), reference(many_q[:1], *first, True), rtol=2e-3, atol=2e-3)


def test_a_transformer_layer_takes_it(device: str) -> None:
    layer = TransformerLayer(4 * HEAD_DIM, 128, 4, 2, dtype=dtype_on(device), device=device)
    whole = KVCache(2, 2, 100, HEAD_DIM, dtype=dtype_on(device), device=device)
    paged = cache_on(device)
    angles = torch.rand(100, HEAD_DIM // 2, device=device)
    at = 0
    with torch.no_grad():
        for new in (10, 1, 1):
            x = torch.randn(2, new, 4 * HEAD_DIM, dtype=dtype_on(device), device=device)
            cos, sin = angles[at : at + new].cos(), angles[at : at + new].sin()
            torch.testing.assert_close(layer(x, cos, sin, paged), layer(x, cos, sin, whole), rtol=2e-3, atol=2e-3)
            at += new


def test_replays_of_a_graph_fill_what_was_reserved(cuda: str) -> None:
    paged, whole = cache_on(cuda), KVCache(2, 2, 100, HEAD_DIM, device=cuda)
    q, k, v = tokens(cuda, 1)
    paged.reserve(40)
    paged.attend(q, k, v)
    whole.attend(q, k, v)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = paged.attend(q, k, v)
    for _ in range(30):
        for tensor in (q, k, v):
            tensor.normal_()
        graph.replay()
        torch.testing.assert_close(out, whole.attend(q, k, v), rtol=0, atol=1e-3)
    paged.recount()
    torch.testing.assert_close(paged.attend(q, k, v), whole.attend(q, k, v), rtol=0, atol=1e-3)
    assert paged.lengths.tolist() == [32, 32]


def test_says_what_it_does_not_take(device: str) -> None:
    paged = cache_on(device)
    with pytest.raises(RuntimeError, match="101 positions do not fit, max_length is 100"):
        paged.append(*tokens(device, 101)[1:])
    assert paged.lengths.tolist() == [0, 0]
    assert paged.free_pages == 14
    _, k, v = tokens(device, 3)
    with pytest.raises(ValueError, match=r"PagedKVCache: k must have shape \[2, 2, new, 64\]"):
        paged.append(k[:1], v[:1])
    with pytest.raises(ValueError, match="page_size must be a power of two from 16 to 256, got 48"):
        cache_on(device, page_size=48)
    with pytest.raises(ValueError, match="must be positive"):
        PagedKVCache(0, 2, 100, HEAD_DIM)
    with pytest.raises(ValueError, match="pages must be positive"):
        cache_on(device, pages=0)
    assert not paged.state_dict()
    assert "14 free" in repr(paged)
