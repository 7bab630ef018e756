"""FlashAttention and KVCache as modules."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from perf_suite.benchmarks.flash_attention import flash_attention as reference
from warpwatch.kernels.modules import FlashAttention, GraphKVCache, KVCache

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def inputs(device: str, seq_q: int, seq_kv: int, *, heads_kv: int = 2) -> Tensors:
    q = torch.randn(2, 4, seq_q, 64, dtype=torch.float16, device=device)
    k, v = torch.randn(2, 2, heads_kv, seq_kv, 64, dtype=torch.float16, device=device)
    return q, k, v


def assert_attends(out: torch.Tensor, expected: torch.Tensor) -> None:
    # Softmax weights and results are rounded to fp16.
    torch.testing.assert_close(out.double(), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("implementation", ["warpwatch", "pytorch"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seq", [(5, 5), (1, 9), (4, 9), (9, 4)], ids=str)
@pytest.mark.parametrize("heads_kv", [4, 2])
def test_every_implementation_means_the_same(
    heads_kv: int, seq: tuple[int, int], causal: bool, implementation: str, device: str
) -> None:
    q, k, v = inputs(device, *seq, heads_kv=heads_kv)
    attention = FlashAttention(causal=causal, scale=0.2, implementation=implementation)
    assert_attends(attention(q, k, v), reference(q, k, v, causal, 0.2))


def test_the_twin_too(cuda: str) -> None:
    q, k, v = inputs(cuda, 65, 130)
    assert_attends(FlashAttention(causal=True, implementation="triton")(q, k, v), reference(q, k, v, True))


def test_another_implementation_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one of warpwatch, triton, pytorch, got 'cuda'"):
        FlashAttention(implementation="cuda")


@pytest.mark.parametrize("implementation", ["warpwatch", "pytorch", "triton"])
def test_has_a_gradient(implementation: str, device: str) -> None:
    if implementation == "triton" and device == "cpu":
        pytest.skip("the twin runs on a GPU")
    q, k, v = (x.requires_grad_() for x in inputs(device, 5, 5))
    FlashAttention(implementation=implementation)(q, k, v).sum().backward()
    # Each query's weights sum up to 1, and two query heads share a key head.
    assert v.grad is not None
    torch.testing.assert_close(
        v.grad.double().sum(dim=2),
        torch.full((2, 2, 64), 10.0, dtype=torch.float64).to(v.grad.device),
        rtol=2e-3,
        atol=0,
    )


@pytest.mark.parametrize("implementation", ["warpwatch", "pytorch", "triton"])
@pytest.mark.parametrize("seq", [(9, 9), (4, 9), (9, 4)], ids=str)
def test_a_window_means_the_same(seq: tuple[int, int], implementation: str, device: str) -> None:
    if implementation == "triton" and device == "cpu":
        pytest.skip("the twin runs on a GPU")
    q, k, v = inputs(device, *seq)
    attention = FlashAttention(causal=True, window=3, implementation=implementation)
    assert_attends(attention(q, k, v), reference(q, k, v, True, window=3))


BIASES = {
    "of all heads": (5, 9),
    "of each head": (4, 5, 9),
    "of each sequence's keys": (2, 1, 1, 9),
    "of each score": (2, 4, 5, 9),
}


@pytest.mark.parametrize("implementation", ["warpwatch", "pytorch", "triton"])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"causal": True, "window": 3}], ids=str)
@pytest.mark.parametrize("shape", BIASES.values(), ids=BIASES)
def test_a_bias_means_the_same(
    shape: tuple[int, ...], options: dict[str, int], implementation: str, device: str
) -> None:
    if implementation == "triton" and device == "cpu":
        pytest.skip("the twin runs on a GPU")
    q, k, v = inputs(device, 5, 9)
    bias = torch.randn(shape, dtype=torch.float16, device=device)
    bias[..., 0, 3] = -torch.inf
    if shape == (5, 9):
        bias[2] = -torch.inf  # a query that sees no key
    out = FlashAttention(implementation=implementation, **options)(q, k, v, bias)
    assert_attends(out, reference(q, k, v, options.get("causal", False), window=options.get("window"), bias=bias))


@pytest.mark.parametrize("implementation", ["warpwatch", "pytorch"])
def test_a_bias_has_a_gradient(implementation: str, device: str) -> None:
    q, k, v = inputs(device, 5, 9)
    bias = torch.zeros(4, 5, 9, dtype=torch.float16, device=device)
    bias[1, 2, 3] = -torch.inf
    leaves = [x.requires_grad_() for x in (q, k, v, bias)]
    d_out = torch.randn_like(q)
    FlashAttention(causal=True, implementation=implementation)(q, k, v, bias).backward(d_out)
    whole = [x.detach().double().requires_grad_() for x in leaves]
    reference(*whole[:3], True, bias=whole[3]).backward(d_out.double())
    for ours, theirs in zip(leaves, whole, strict=True):
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("implementation", ["warpwatch", "pytorch"])
def test_what_a_bias_hides_altogether_has_no_gradient_and_no_nan(implementation: str, device: str) -> None:
    q, k, v = inputs(device, 5, 9)
    bias = torch.zeros(5, 9, dtype=torch.float16, device=device)
    bias[2] = -torch.inf
    leaves = [x.requires_grad_() for x in (q, k, v, bias)]
    FlashAttention(implementation=implementation)(q, k, v, bias).sum().backward()
    assert all(bool(x.grad.isfinite().all()) for x in leaves)
    assert q.grad[:, :, 2].count_nonzero() == 0
    assert bias.grad[2].count_nonzero() == 0


def test_the_twin_says_that_it_has_no_gradient_with_a_bias(cuda: str) -> None:
    q, k, v = inputs(cuda, 5, 9)
    bias = torch.zeros(5, 9, dtype=torch.float16, device=cuda, requires_grad=True)
    with pytest.raises(RuntimeError, match="with a bias it has no gradient"):
        FlashAttention(implementation="triton")(q, k, v, bias)


@pytest.mark.parametrize("options", [{"window": 3}, {"window": 0, "causal": True}], ids=str)
def test_a_window_that_means_nothing_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="window must be positive and needs causal=True"):
        FlashAttention(**options)


def test_the_gradients_agree_with_the_twins(cuda: str) -> None:
    grads = []
    tensors = inputs(cuda, 65, 130)
    d_out = torch.randn_like(tensors[0])
    for implementation in ("warpwatch", "triton"):
        leaves = [x.clone().requires_grad_() for x in tensors]
        FlashAttention(causal=True, implementation=implementation)(*leaves).backward(d_out)
        grads.append([x.grad for x in leaves])
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-2)  # both round weights and ds to fp16


def test_compiles_without_graph_breaks(device: str) -> None:
    q, k, v = inputs(device, 5, 9)
    attention = FlashAttention(causal=True)
    assert torch.equal(torch.compile(attention, fullgraph=True)(q, k, v), attention(q, k, v))


def test_has_nothing_to_save() -> None:
    assert FlashAttention(causal=True).state_dict() == {}


def test_a_cache_gives_back_what_it_was_given(device: str) -> None:
    _, k, v = inputs(device, 1, 9)
    cache = KVCache(2, 2, 12, 64, device=device)
    for begin, end in ((0, 4), (4, 4), (4, 5), (5, 9)):
        keys, values = cache.append(k[:, :, begin:end], v[:, :, begin:end])
        assert torch.equal(keys, k[:, :, :end])
        assert torch.equal(values, v[:, :, :end])
    assert cache.length == 9
    assert keys.data_ptr() == cache.keys.data_ptr()  # a view, and no copy


def test_decoding_step_by_step_is_attending_at_once(device: str) -> None:
    q, k, v = inputs(device, 9, 9)
    attention, cache = FlashAttention(causal=True), KVCache(2, 2, 12, 64, device=device)
    steps = [
        attention(q[:, :, i:j], *cache.append(k[:, :, i:j], v[:, :, i:j])) for i, j in ((0, 5), (5, 6), (6, 7), (7, 9))
    ]
    assert_attends(torch.cat(steps, dim=2), reference(q, k, v, True))


def test_a_cache_forgets(device: str) -> None:
    _, k, v = inputs(device, 1, 9)
    cache = KVCache(2, 2, 9, 64, device=device)
    cache.append(k, v)
    cache.truncate(4)
    keys, _ = cache.append(v[:, :, :2], k[:, :, :2])
    assert torch.equal(keys, torch.cat((k[:, :, :4], v[:, :, :2]), dim=2))
    cache.reset()
    assert cache.filled()[0].shape == (2, 2, 0, 64)


def test_a_cache_moves_and_is_cast_with_its_model_and_is_not_saved(device: str) -> None:
    model = torch.nn.ModuleList([KVCache(1, 2, 8, 64)])
    model.to(device, torch.bfloat16)
    assert (model[0].keys.device.type, model[0].values.dtype) == (device, torch.bfloat16)
    assert model.state_dict() == {}


REFUSED: dict[str, Callable[[KVCache, torch.Tensor], object]] = {
    "KVCache: k must have shape [2, 2, new, 64] (batch, heads_kv, new, head_dim), got [2, 4, 3, 64]": (
        lambda cache, k: cache.append(k.repeat(1, 2, 1, 1), k)
    ),
    "KVCache: v must have shape [2, 2, new, 64] (batch, heads_kv, new, head_dim), got [2, 3, 64]": (
        lambda cache, k: cache.append(k, k[:, 0])
    ),
    "KVCache: k and v differ in shape: [2, 2, 3, 64] against [2, 2, 2, 64]": lambda cache, k: cache.append(
        k, k[:, :, 1:]
    ),
    "KVCache: k is torch.float32 on cpu, the cache torch.float16 on cpu": lambda cache, k: cache.append(k.float(), k),
    "KVCache: 3 more positions do not fit: 6 of 8 are filled; reset the cache or make it with a larger max_length": (
        lambda cache, k: [cache.append(k, k) for _ in range(3)]
    ),
    "KVCache: k belongs to a gradient, which would end here; use torch.no_grad()": (
        lambda cache, k: cache.append(k.clone().requires_grad_(), k)
    ),
    "KVCache: cannot truncate to 1 positions, for 0 are filled": lambda cache, _: cache.truncate(1),
    "KVCache: batch, heads_kv, max_length and head_dim must be positive, got [1, 2, 0, 64]": (
        lambda *_: KVCache(1, 2, 0, 64)
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_errors_of_a_cache_state_what_was_passed_and_what_is_expected(sentence: str) -> None:
    with pytest.raises((ValueError, RuntimeError)) as refusal:
        REFUSED[sentence](KVCache(2, 2, 8, 64), torch.zeros(2, 2, 3, 64, dtype=torch.float16))
    assert str(refusal.value) == sentence


@pytest.mark.parametrize("new", [1, 3, 8])
def test_a_graph_cache_goes_on_where_its_lengths_say(new: int, device: str) -> None:
    cache = GraphKVCache(2, 2, 40, 64, device=device)
    seen_k, seen_v = torch.randn(2, 2, 2, 12, 64, dtype=torch.float16, device=device)
    cache.append(seen_k, seen_v)
    cache.lengths.copy_(torch.tensor([12, 7]))  # the second sequence forgets five
    q, k, v = inputs(device, new, new)
    out = cache.attend(q, k, v)
    assert cache.lengths.tolist() == [12 + new, 7 + new]
    for sequence, length in enumerate((12, 7)):
        keys, values = (
            torch.cat((seen[sequence : sequence + 1, :, :length], fresh[sequence : sequence + 1]), dim=2)
            for seen, fresh in ((seen_k, k), (seen_v, v))
        )
        assert_attends(out[sequence : sequence + 1], reference(q[sequence : sequence + 1], keys, values, True))


@pytest.mark.parametrize("lengths", [[12, 12], [12, 7]], ids=str)
def test_a_graph_cache_takes_many_tokens_at_once(lengths: list[int], device: str) -> None:
    cache = GraphKVCache(2, 2, 40, 64, device=device)
    seen_k, seen_v = torch.randn(2, 2, 2, 12, 64, dtype=torch.float16, device=device)
    cache.append(seen_k, seen_v)
    cache.lengths.copy_(torch.tensor(lengths))
    q, k, v = inputs(device, 17, 17)
    out = cache.attend(q, k, v)
    for sequence, length in enumerate(lengths):
        keys, values = (
            torch.cat((seen[sequence : sequence + 1, :, :length], fresh[sequence : sequence + 1]), dim=2)
            for seen, fresh in ((seen_k, k), (seen_v, v))
        )
        assert_attends(out[sequence : sequence + 1], reference(q[sequence : sequence + 1], keys, values, True))


def test_a_captured_step_goes_on_from_replay_to_replay(cuda: str) -> None:
    grown, captured = KVCache(2, 2, 40, 64, device=cuda), GraphKVCache(2, 2, 40, 64, device=cuda)
    q, k, v = inputs(cuda, 1, 1)
    captured.attend(q, k, v)  # what a library makes ready at its first call, no capture holds
    captured.reset()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = captured.attend(q, k, v)
    captured.reset()
    for _ in range(5):
        for tensor in (q, k, v):
            tensor.normal_()
        graph.replay()
        torch.testing.assert_close(out, grown.attend(q, k, v), rtol=0, atol=1e-3)
    assert captured.lengths.tolist() == [5, 5]


def test_a_graph_cache_says_what_it_does_not_take(device: str) -> None:
    cache = GraphKVCache(2, 2, 8, 64, device=device)
    _, k, v = inputs(device, 9, 9)
    with pytest.raises(RuntimeError, match="9 positions do not fit into 8"):
        cache.append(k, v)
    with pytest.raises(ValueError, match=r"GraphKVCache: k must have shape \[2, 2, new, 64\]"):
        cache.append(k[:1], v[:1])
    with pytest.raises(ValueError, match="must be positive"):
        GraphKVCache(2, 0, 8, 64)
    assert not cache.state_dict()


def test_a_graph_cache_that_is_full_raises_on_the_cpu() -> None:
    cache = GraphKVCache(2, 2, 8, 64)
    _, k, v = inputs("cpu", 8, 8)
    cache.append(k, v)
    with pytest.raises(IndexError, match="out of bounds"):
        cache.append(k[:, :, :1], v[:, :, :1])
