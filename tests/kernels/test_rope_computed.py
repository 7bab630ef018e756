"""rope_computed against float64: angles at any position, in every layout that rope takes, and in place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from perf_suite.benchmarks.rope import rope as reference
from warpwatch import kernels

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
SHAPES = [
    (1, 1, 1, 2),  # one pair
    (2, 3, 5, 10),  # no 16-byte piece fits
    (1, 4, 17, 16),
    (2, 5, 33, 64),
    (64, 8, 1, 128),  # decoding, each sequence at a position of its own
    (16, 37, 63, 128),  # and rows of a warp that are of different groups of heads
    (16, 37, 64, 128),  # threads that share their angles among heads, which they do not divide
    (1, 2, 3, 512),  # as many frequencies as there may be
    (1, 1, 1000, 96),
    (1, 1, 4097, 8),
]
BASES = [10000.0, 500000.0, 1.0]


def expected(x: torch.Tensor, positions: torch.Tensor, base: float, interleaved: bool) -> torch.Tensor:
    half = x.shape[-1] // 2
    frequencies = base ** (-torch.arange(half, device=x.device, dtype=torch.float64) / half)
    places = positions[:, None] + torch.arange(x.shape[2], device=x.device)
    angles = places.double()[..., None] * frequencies
    each = [reference(x[b : b + 1], angles[b].cos(), angles[b].sin(), interleaved) for b in range(x.shape[0])]
    return torch.cat(each)


def assert_turned(out: torch.Tensor, wanted: torch.Tensor) -> None:
    # As for rope, one rounding to the dtype; the interpreter truncates to bfloat16. Also, cos and sin may be off by
    # 2^-22 (an angle within 2^-25 half turns and sincospif's 2 units), times |a| + |b|, which is 12 at most here.
    torch.testing.assert_close(out.double(), wanted, rtol=torch.finfo(out.dtype).eps, atol=12 * 2.0**-22)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_turns_each_pair_by_its_positions_angle(
    shape: tuple[int, ...], dtype: torch.dtype, interleaved: bool, device: str
) -> None:
    x = torch.randn(shape, dtype=dtype, device=device)
    positions = torch.randint(0, 4000, shape[:1], device=device)
    out = kernels.rope_computed(x, positions, interleaved=interleaved)
    assert out.dtype == dtype
    assert out.is_contiguous()
    assert_turned(out, expected(x, positions, 10000.0, interleaved))


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("position", [0, 1, 131072, 10_000_000, 2**31 - 2, -5])
def test_far_positions_are_as_exact_as_near_ones(position: int, base: float, device: str) -> None:
    # fp32 angles would be off by 6e-3 at 131072, and be noise at ten million.
    x = torch.randn(1, 2, 4, 128, device=device)
    positions = torch.tensor([position], device=device)
    assert_turned(kernels.rope_computed(x, positions, base=base), expected(x, positions, base, False))


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_in_place_it_leaves_in_x_what_it_would_have_returned(
    shape: tuple[int, ...], dtype: torch.dtype, interleaved: bool, device: str
) -> None:
    x = torch.randn(shape, dtype=dtype, device=device).transpose(1, 2).contiguous().transpose(1, 2)
    positions = torch.randint(0, 4000, shape[:1], device=device)
    wanted = kernels.rope_computed(x, positions, interleaved=interleaved)
    assert kernels.rope_computed_(x, positions, interleaved=interleaved) is None
    assert torch.equal(x, wanted)


@pytest.mark.parametrize("shape", [(0, 3, 5, 8), (2, 0, 5, 8), (2, 3, 0, 8), (2, 3, 5, 0)], ids=str)
def test_nothing_to_turn_gives_an_empty_tensor(shape: tuple[int, ...], device: str) -> None:
    x = torch.empty(shape, device=device)
    positions = torch.zeros(shape[0], dtype=torch.int64, device=device)
    assert kernels.rope_computed(x, positions).shape == shape
    kernels.rope_computed_(x, positions)


Call = tuple[torch.Tensor, torch.Tensor, float]
REFUSED: dict[str, Callable[[torch.Tensor, torch.Tensor], Call]] = {
    "rope_computed: x must have 4 dimensions (batch, heads, seq, head_dim), got shape [3, 5, 8]": (
        lambda x, p: (x[0], p, 1e4)
    ),
    "rope_computed: head_dim must be even, got x of shape [2, 3, 5, 7]": lambda x, p: (x[..., :7], p, 1e4),
    "rope_computed: head_dim may be 512 at most, got x of shape [2, 3, 5, 520]": (
        lambda x, p: (x.repeat(1, 1, 1, 65), p, 1e4)
    ),
    "rope_computed: positions must have shape [2] (batch), got [3]": lambda x, p: (x, p.new_zeros(3), 1e4),
    "rope_computed: positions must be int64, got int32": lambda x, p: (x, p.int(), 1e4),
    "rope_computed: base must be 1 or more, got 0.5": lambda x, p: (x, p, 0.5),
    "rope_computed: base must be 1 or more, got inf": lambda x, p: (x, p, float("inf")),
    "rope_computed: base must be 1 or more, got nan": lambda x, p: (x, p, float("nan")),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_errors_state_what_was_passed_and_what_is_expected(sentence: str, device: str) -> None:
    x, positions, base = REFUSED[sentence](
        torch.zeros(2, 3, 5, 8, device=device), torch.zeros(2, dtype=torch.int64, device=device)
    )
    with pytest.raises(RuntimeError) as refusal:
        kernels.rope_computed(x, positions, base=base)
    assert str(refusal.value).splitlines()[0] == sentence


def test_in_place_it_refuses_an_expanded_tensor(device: str) -> None:
    x = torch.zeros(2, 1, 5, 8, device=device).expand(2, 3, 5, 8)
    with pytest.raises(RuntimeError, match="rope_computed_: x must not be expanded, for it is written to"):
        kernels.rope_computed_(x, torch.zeros(2, dtype=torch.int64, device=device))


def test_both_are_well_behaved_operators(device: str) -> None:
    positions = torch.tensor([7, 100], device=device)
    for operator in (torch.ops.warpwatch.rope_computed, torch.ops.warpwatch.rope_computed_):
        x = torch.randn(2, 5, 3, 16, device=device).transpose(1, 2)
        torch.library.opcheck(operator.default, (x, positions, 500000.0, True), raise_exception=True)


def test_compiles_without_graph_breaks(device: str) -> None:
    positions = torch.tensor([7, 100], device=device)

    @torch.compile(fullgraph=True)
    def turned(x: torch.Tensor) -> torch.Tensor:
        y = kernels.rope_computed(x, positions) * 2
        kernels.rope_computed_(y, positions, interleaved=True)
        return y

    x = torch.randn(2, 3, 5, 16, device=device)
    wanted = kernels.rope_computed(kernels.rope_computed(x, positions) * 2, positions, interleaved=True)
    assert torch.equal(turned(x), wanted)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [*SHAPES[:4], (5, 8, 1, 128)], ids=str)
def test_triton_twin_agrees(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    interleaved: bool,
    device: str,
    twin: Callable[..., Callable[..., torch.Tensor]],
) -> None:
    x = torch.randn(shape, dtype=dtype, device=device).transpose(1, 2).contiguous().transpose(1, 2)
    positions = torch.randint(0, 10_000_000, shape[:1], device=device)
    out = twin("rope", "rope_computed")(x, positions, base=500000.0, interleaved=interleaved)
    assert_turned(out, expected(x, positions, 500000.0, interleaved))


def test_replays_from_a_cuda_graph_at_the_positions_of_then(cuda: str) -> None:
    x = torch.randn(2, 8, 64, 128, dtype=torch.float16, device=cuda)
    positions = torch.tensor([3, 70], device=cuda)
    kernels.rope_computed(x, positions)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = kernels.rope_computed(x, positions)
    x.copy_(torch.randn_like(x))
    positions.add_(1000)
    graph.replay()
    assert_turned(out, expected(x, positions, 10000.0, False))
