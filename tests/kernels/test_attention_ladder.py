"""naive_attention and tiled_attention against float64, and as operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest
import torch

from perf_suite.benchmarks.flash_attention import flash_attention as reference
from warpwatch import kernels

from .test_flash_attention import DTYPES, STRIDED, assert_attends, inputs

Attention = Callable[..., torch.Tensor]
# Queries and keys come in tiles of 32, at head_dim 256 keys in tiles of 16; four queries share a naive block.
EDGES = [(1, 1), (17, 17), (31, 33), (32, 32), (33, 31), (64, 65), (1, 300), (133, 5), (5, 133)]


@pytest.fixture(params=["naive_attention", "tiled_attention"])
def attention(request: pytest.FixtureRequest) -> Attention:
    function: Attention = getattr(kernels, request.param)
    return function


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seq", EDGES, ids=str)
def test_agrees_with_float64_at_the_edges_of_tiles(
    seq: tuple[int, int], dtype: torch.dtype, causal: bool, attention: Attention, device: str
) -> None:
    q, k, v = inputs(device, dtype, seq)
    out = attention(q, k, v, causal=causal)
    assert out.dtype == dtype
    assert out.is_contiguous()
    assert_attends(out, reference(q, k, v, causal))


@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("heads", [(4, 2), (5, 1)], ids=str)
def test_head_dims_and_shared_key_heads_agree(
    heads: tuple[int, int], head_dim: int, attention: Attention, device: str
) -> None:
    q, k, v = inputs(device, torch.float16, (70, 90), heads=heads, head_dim=head_dim)
    assert_attends(attention(q, k, v, causal=True, scale=0.2), reference(q, k, v, causal=True, scale=0.2))


def test_a_query_that_sees_no_key_gives_zeros(attention: Attention, device: str) -> None:
    q, k, v = inputs(device, torch.float16, (100, 3))
    out = attention(q, k, v, causal=True)
    assert torch.equal(out[:, :, :97], torch.zeros_like(out[:, :, :97]))
    assert_attends(out, reference(q, k, v, causal=True))
    nothing = attention(q, k[:, :, :0], v[:, :, :0])
    assert torch.equal(nothing, torch.zeros_like(q))
    assert attention(q[:, :, :0], k, v).shape == (2, 2, 0, 64)


@pytest.mark.parametrize("layout", STRIDED)
def test_strides_other_than_the_last_are_free(layout: str, attention: Attention, device: str) -> None:
    q, k, v = (STRIDED[layout](x) for x in inputs(device, torch.float16, (70, 90)))
    assert_attends(attention(q, k, v, causal=True), reference(q, k, v, causal=True))


def test_scores_beyond_the_range_of_exp_stay_finite(attention: Attention, device: str) -> None:
    q, k, v = inputs(device, torch.float32, (40, 200))
    q, k = q * 40, k * 40
    assert_attends(attention(q, k, v), reference(q, k, v), 40 * 40 * 50 / 8)


def test_errors_state_what_was_passed_and_what_is_expected(attention: Attention, device: str) -> None:
    q, k, v = inputs(device, torch.float16, (5, 7), heads=(4, 2))
    name = attention.__name__
    for arguments, sentence in (
        ((q[0], k, v), "q must have 4 dimensions (batch, heads_q, seq_q, head_dim), got shape [4, 5, 64]"),
        ((q[:, :3], k, v), "heads_q must be a positive multiple of heads_kv, got 3 and 2"),
        ((q, k, v.float()), "q and v differ in dtype: float16 against float32"),
        ((q[..., :4], k[..., :4], v[..., :4]), "head_dim must be a multiple of 8 up to 256, got 4"),
    ):
        with pytest.raises(RuntimeError) as refused:
            attention(*arguments)
        assert str(refused.value).splitlines()[0] == f"{name}: {sentence}"


def test_a_scale_is_one_that_float32_holds(attention: Attention, device: str) -> None:
    q, k, v = inputs(device, torch.float16, (5, 7))
    with pytest.raises(RuntimeError, match=r"scale must lie between 1\.17549e-38 and 1\.70141e\+38, got 1e\+39"):
        attention(q, k, v, scale=1e39)


def test_are_well_behaved_operators(attention: Attention, device: str) -> None:
    q, k, v = inputs(device, torch.float16, (9, 17), heads=(4, 2))
    operator = getattr(torch.ops.warpwatch, attention.__name__).default
    torch.library.opcheck(operator, (q, k, v, True, None))


def test_compile_without_graph_breaks(attention: Attention, device: str) -> None:
    q, k, v = inputs(device, torch.float16, (9, 17))
    doubled = torch.compile(lambda q, k, v: attention(q, k, v, causal=True) * 2, fullgraph=True)
    assert torch.equal(doubled(q, k, v), attention(q, k, v, causal=True) * 2)


# A program of tiled_attention takes 32 queries and tiles of 32 keys, one of naive_attention a query and 64 keys a step.
TWIN_SEQ = [
    *(("tiled_attention", seq) for seq in ((17, 17), (33, 31), (1, 70), (37, 5))),
    *(("naive_attention", seq) for seq in ((5, 5), (7, 5), (2, 70), (9, 2))),
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize(("attention", "seq"), TWIN_SEQ, ids=str, indirect=["attention"])
def test_triton_twins_agree(
    seq: tuple[int, int],
    dtype: torch.dtype,
    causal: bool,
    attention: Attention,
    device: str,
    twin: Callable[[str], Attention],
) -> None:
    if device == "cpu" and numpy.lib.NumpyVersion(numpy.__version__) >= "2.4.0":
        pytest.skip("Triton 3.6's interpreter makes loop bounds in a way that NumPy refuses from 2.4 on")
    q, k, v = inputs(device, dtype, seq, heads=(4, 2), head_dim=96, batch=1)
    out = twin(attention.__name__)(q, k, v, causal=causal)
    assert out.dtype == dtype
    assert_attends(out, reference(q, k, v, causal))


@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize(
    ("attention", "queries"), [("tiled_attention", 40), ("naive_attention", 3)], indirect=["attention"]
)
def test_triton_twins_take_strides_and_any_head_dim(
    attention: Attention, queries: int, head_dim: int, device: str, twin: Callable[[str], Attention]
) -> None:
    if device == "cpu" and numpy.lib.NumpyVersion(numpy.__version__) >= "2.4.0":
        pytest.skip("Triton 3.6's interpreter makes loop bounds in a way that NumPy refuses from 2.4 on")
    tokens_first = STRIDED["batch, seq, heads, head_dim"]
    q, k, v = (tokens_first(x) for x in inputs(device, torch.float16, (queries, 70), head_dim=head_dim))
    assert_attends(twin(attention.__name__)(q, k, v, causal=True, scale=0.2), reference(q, k, v, True, scale=0.2))


def test_replay_from_a_cuda_graph(attention: Attention, cuda: str) -> None:
    q, k, v = inputs(cuda, torch.float16, (200, 300), heads=(4, 2))
    attention(q, k, v, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attention(q, k, v, causal=True)
    for x in (q, k, v):
        x.copy_(torch.randn_like(x))
    graph.replay()
    assert_attends(out, reference(q, k, v, causal=True))
