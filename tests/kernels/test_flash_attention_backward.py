"""Gradients of flash_attention against float64 autograd through the definition, on both devices."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from warpwatch import kernels
from warpwatch.kernels.operators.flash_attention import flash_attention_with_lse

from .test_flash_attention import DTYPES, Tensors, inputs

MASKS: dict[str, dict[str, Any]] = {
    "full": {},
    "causal": {"causal": True},
    "window of 1": {"causal": True, "window": 1},
    "window of 40": {"causal": True, "window": 40},
    "scaled": {"causal": True, "scale": 0.3},
}
# Queries and keys come in tiles of 32 and 64 on the GPU.
SEQ = [(1, 1), (17, 17), (31, 33), (64, 64), (65, 63), (129, 64), (1, 300), (200, 72), (72, 200), (257, 257)]

# Weights, ds and the gradients are rounded to the dtype, and so is the output that delta comes from. A sum of many such
# terms is off by eps times its largest terms, and those are about the largest gradient.
TOLERANCE = {torch.float16: 8 * 2.0**-10, torch.bfloat16: 8 * 2.0**-7, torch.float32: 2e-5}


def definition(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
) -> torch.Tensor:
    """softmax(scale q k^T) v with autograd's own operators; queries that see no key give zeros."""
    group, (seq_q, seq_kv) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = scale * q @ k.repeat_interleave(group, dim=1).transpose(-2, -1)
    seen = torch.ones(seq_q, seq_kv, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(seq_kv - seq_q)
    if window is not None:
        seen = seen.triu(seq_kv - seq_q + 1 - window)
    lowest = torch.finfo(scores.dtype).min  # -inf would give rows that see nothing NaN gradients
    weights = torch.softmax(scores.masked_fill(~seen, lowest), dim=-1).masked_fill(~seen, 0.0)
    return weights @ v.repeat_interleave(group, dim=1)


def gradients(function: Any, tensors: Tensors, d_out: torch.Tensor, **options: Any) -> tuple[torch.Tensor, ...]:
    leaves = [x.detach().requires_grad_() for x in tensors]
    function(*leaves, **options).backward(d_out)
    return tuple(x.grad for x in leaves if x.grad is not None)


def assert_gradients(tensors: Tensors, **options: Any) -> None:
    q = tensors[0]
    d_out = torch.randn_like(q)
    found = gradients(kernels.flash_attention, tensors, d_out, **options)
    q64, k64, v64 = (x.double() for x in tensors)
    expected = gradients(definition, (q64, k64, v64), d_out.double(), **options)
    assert_close(found, expected, q.dtype)


def assert_close(found: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...], dtype: torch.dtype) -> None:
    for name, one, other in zip(("dq", "dk", "dv"), found, expected, strict=True):
        assert one.dtype == dtype
        largest = max(1.0, other.abs().max().item()) if other.numel() else 1.0
        atol = TOLERANCE[dtype] * largest
        torch.testing.assert_close(
            one.double(), other, rtol=0, atol=atol, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seq", SEQ, ids=str)
def test_agrees_with_float64_at_the_edges_of_tiles(
    seq: tuple[int, int], dtype: torch.dtype, mask: str, device: str
) -> None:
    assert_gradients(inputs(device, dtype, seq, heads=(4, 2), batch=1), **MASKS[mask])


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("head_dim", [128, 256])
@pytest.mark.parametrize("seq", SEQ, ids=str)
def test_the_edges_of_tiles_of_wider_heads(seq: tuple[int, int], head_dim: int, mask: str, cuda: str) -> None:
    assert_gradients(inputs(cuda, torch.float16, seq, head_dim=head_dim, heads=(4, 2), batch=1), **MASKS[mask])


@pytest.mark.parametrize("mask", ["full", "causal", "window of 40"])
@pytest.mark.parametrize("heads", [(32, 32), (40, 10)], ids=str)
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_more_tiles_than_blocks_fit_on_the_gpu(head_dim: int, heads: tuple[int, int], mask: str, cuda: str) -> None:
    assert_gradients(inputs(cuda, torch.float16, (1000, 1100), head_dim=head_dim, heads=heads, batch=1), **MASKS[mask])


@pytest.mark.parametrize("mask", ["full", "causal", "scaled"])
@pytest.mark.parametrize(
    ("heads", "seq"), [((40, 10), (2000, 2000)), ((24, 3), (2100, 2100)), ((5, 5), (4097, 4100))], ids=str
)
def test_more_scores_than_are_kept_at_one_time(
    heads: tuple[int, int], seq: tuple[int, int], mask: str, cuda: str
) -> None:
    assert_gradients(inputs(cuda, torch.float16, seq, head_dim=128, heads=heads, batch=1), **MASKS[mask])


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
def test_every_head_dim(head_dim: int, dtype: torch.dtype, mask: str, device: str) -> None:
    assert_gradients(inputs(device, dtype, (70, 90), head_dim=head_dim, heads=(2, 1)), **MASKS[mask])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (6, 2), (5, 1)], ids=str)
def test_query_heads_add_up_in_their_key_head(heads: tuple[int, int], dtype: torch.dtype, device: str) -> None:
    assert_gradients(inputs(device, dtype, (70, 90), heads=heads), causal=True)


@pytest.mark.parametrize("head_dim", [64, 96, 128])
def test_an_infinite_gradient_stays_in_what_it_belongs_to(head_dim: int, device: str) -> None:
    # On tensor cores a float32 is two pieces, and what an infinity leaves for the second is NaN.
    tensors = inputs(device, torch.float32, (50, 70), head_dim=head_dim)
    d_out = torch.randn_like(tensors[0])
    d_out[:, :, 20, 3] = 0.0
    expected = gradients(definition, tuple(x.double() for x in tensors), d_out.double())
    d_out[:, :, 20, 3] = torch.inf
    dq, _, dv = gradients(kernels.flash_attention, tensors, d_out)
    others = [query for query in range(50) if query != 20]
    torch.testing.assert_close(dq[:, :, others].double(), expected[0][:, :, others], rtol=0, atol=2e-5)
    assert (dv[..., 3] == torch.inf).all()
    dv[..., 3] = expected[2][..., 3].float()
    torch.testing.assert_close(dv.double(), expected[2], rtol=0, atol=2e-5)


@pytest.mark.parametrize("mask", ["full", "causal", "window of 40"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("seq", [(1000, 1000), (17, 4097), (4097, 4097)], ids=str)
def test_long_and_odd_lengths(seq: tuple[int, int], head_dim: int, dtype: torch.dtype, mask: str, device: str) -> None:
    if device == "cpu" and (seq[0] > 1000 or head_dim != 64 or dtype != torch.float32):
        pytest.skip("what lengths change on the CPU is seen with the shorter ones")
    assert_gradients(inputs(device, dtype, seq, head_dim=head_dim, heads=(2, 1), batch=1), **MASKS[mask])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_queries_that_see_no_key_give_and_take_nothing(dtype: torch.dtype, device: str) -> None:
    q, k, v = inputs(device, dtype, (200, 72), batch=1)
    d_out = torch.randn_like(q)
    dq, *others = gradients(kernels.flash_attention, (q, k, v), d_out, causal=True)
    assert torch.equal(dq[:, :, :128], torch.zeros_like(dq[:, :, :128]))
    _, *seen = gradients(kernels.flash_attention, (q[:, :, 128:], k, v), d_out[:, :, 128:], causal=True)
    for one, other in zip(others, seen, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_strided_and_unaligned_tensors_are_taken(dtype: torch.dtype, device: str) -> None:
    # Projections of one matrix side by side, transposed views of it, with rows that start anywhere.
    packed = torch.randn(2, 70, 3 * 4 * 64 + 1, device=device).to(dtype)
    if dtype == torch.bfloat16:
        inputs(device, dtype, (1, 1))  # skips where there is none
    q, k, v = (x.unflatten(-1, (4, 64)).transpose(1, 2) for x in packed[..., 1:].chunk(3, dim=-1))
    assert_gradients((q, k, v), causal=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_transposed_and_expanded_gradients_are_taken(dtype: torch.dtype, device: str) -> None:
    q, k, v = inputs(device, dtype, (33, 50))
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    one = torch.ones((), dtype=q.dtype, device=device)
    found = gradients(kernels.flash_attention, (q, k, v), one.expand(q.shape))
    wanted = gradients(kernels.flash_attention, (q, k, v), torch.ones_like(q).contiguous())
    for got, expected in zip(found, wanted, strict=True):
        assert torch.equal(got, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_the_same_input_gives_the_same_gradients(head_dim: int, dtype: torch.dtype, device: str) -> None:
    tensors = inputs(device, dtype, (200, 200), head_dim=head_dim, heads=(4, 2))
    d_out = torch.randn_like(tensors[0])
    first = gradients(kernels.flash_attention, tensors, d_out, causal=True)
    for _ in range(3):
        again = gradients(kernels.flash_attention, tensors, d_out, causal=True)
        assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


# Hopper's kernels for head_dim 128 leave gradients of scores in memory for each other, of 16 such heads at one time.
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_a_busy_gpu_gives_the_same_gradients(head_dim: int, causal: bool, cuda: str) -> None:
    tensors = inputs(cuda, torch.float16, (2048, 2048), head_dim=head_dim, heads=(32, 32), batch=1)
    d_out = torch.randn_like(tensors[0])
    first = gradients(kernels.flash_attention, tensors, d_out, causal=causal)
    for _ in range(10):
        again = gradients(kernels.flash_attention, tensors, d_out, causal=causal)
        assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


def test_agrees_with_differences_of_its_own_output() -> None:
    # gradcheck's idea with steps that float32 can bear: the slope along a random direction.
    tensors = inputs("cpu", torch.float32, (9, 12), heads=(2, 1), head_dim=16, batch=1)
    d_out = torch.randn_like(tensors[0])
    found = gradients(kernels.flash_attention, tensors, d_out, causal=True, window=7)
    for which, gradient in enumerate(found):
        direction = torch.randn_like(gradient)
        values = []
        for step in (-1e-2, 1e-2):
            moved = [x + step * direction if i == which else x for i, x in enumerate(tensors)]
            out = kernels.flash_attention(moved[0], moved[1], moved[2], causal=True, window=7)
            values.append((out.double() * d_out.double()).sum())
        slope = (values[1] - values[0]) / 2e-2
        # Third derivatives times the step squared, and float32's rounding over the step.
        torch.testing.assert_close((gradient.double() * direction.double()).sum(), slope, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_empty_sides(dtype: torch.dtype, device: str) -> None:
    q, k, v = inputs(device, dtype, (5, 0))
    dq, dk, dv = gradients(kernels.flash_attention, (q, k, v), torch.ones_like(q))
    assert torch.equal(dq, torch.zeros_like(q))
    assert (dk.shape, dv.shape) == (k.shape, v.shape)
    dq, dk, dv = gradients(kernels.flash_attention, (k, q, q), torch.ones_like(k))
    assert torch.equal(dk, torch.zeros_like(q))
    assert torch.equal(dv, torch.zeros_like(q))


def test_without_a_gradient_nothing_is_kept(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (5, 9))
    assert kernels.flash_attention(q, k, v).grad_fn is None
    with torch.no_grad():
        assert kernels.flash_attention(q.requires_grad_(), k, v).grad_fn is None


def test_is_a_well_behaved_operator(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (9, 17), heads=(4, 2))
    leaves = tuple(x.requires_grad_() for x in (q, k, v))
    torch.library.opcheck(torch.ops.warpwatch.flash_attention_with_lse.default, (*leaves, True, None, 4))
    out, lse = flash_attention_with_lse(q, k, v, causal=True)
    arguments = tuple(x.detach() for x in (torch.ones_like(q), q, k, v, out, lse))
    torch.library.opcheck(torch.ops.warpwatch.flash_attention_backward.default, (*arguments, True, None, None))


def test_compiles_with_its_gradient(device: str) -> None:
    tensors = inputs(device, torch.float16, (9, 17))

    @torch.compile(fullgraph=True)
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return kernels.flash_attention(q, k, v, causal=True)

    d_out = torch.randn_like(tensors[0])
    found = gradients(attend, tensors, d_out)
    expected = gradients(kernels.flash_attention, tensors, d_out, causal=True)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_replays_from_a_cuda_graph(dtype: torch.dtype, cuda: str) -> None:
    q, k, v = inputs(cuda, dtype, (200, 300), heads=(4, 2))
    out, lse = flash_attention_with_lse(q, k, v, causal=True)
    given = (torch.randn_like(out), q, k, v, out, lse)
    backward = torch.ops.warpwatch.flash_attention_backward
    backward(*given, True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = backward(*given, True)
    given[0].normal_()
    graph.replay()
    for one, other in zip(found, backward(*given, True), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("causal", [False, True])
def test_memory_grows_with_the_tokens_and_not_with_their_square(causal: bool, cuda: str) -> None:
    allocated = []
    for tokens in (16 << 10, 32 << 10, 64 << 10):
        leaves = tuple(x.requires_grad_() for x in inputs(cuda, torch.float16, (tokens, tokens), heads=(2, 1), batch=1))
        d_out = torch.randn_like(leaves[0])
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        kernels.flash_attention(*leaves, causal=causal).backward(d_out)
        allocated.append(torch.cuda.max_memory_allocated() - before)
        del leaves, d_out
    for less, more in itertools.pairwise(allocated):
        assert more <= 2.01 * less + (2 << 20)  # the allocator's blocks are of 2 MiB


def test_says_what_does_not_fit(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (5, 9))
    out, lse = flash_attention_with_lse(q, k, v)
    backward = torch.ops.warpwatch.flash_attention_backward
    with pytest.raises(RuntimeError, match="flash_attention_backward: lse must be float64, got float16"):
        backward(out, q, k, v, out, lse.half())
    with pytest.raises(RuntimeError, match=r"flash_attention_backward: q and d_out differ in shape"):
        backward(out[:, :, :3], q, k, v, out, lse)
