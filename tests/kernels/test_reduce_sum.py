"""reduce_sum against float64: every set of axes, edges of its loads and parts, what it says of a wrong dim."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch

from perf_suite.benchmarks.reduce_sum import reduce_sum as reference
from warpwatch import kernels

from .bfloat16 import skip_without_bfloat16

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
# (outer, reduced, inner); on the GPU rows take a part of a warp up to 256 loads, then a block, and one long row or few
# columns are cut into parts.
SHAPES = [
    (1, 1, 1),
    (1, 5, 1),
    (3, 17, 1),
    (300, 8, 1),  # a load of fp16 a row, one lane
    (37, 128, 1),
    (9, 1000, 1),
    (5, 2048, 1),  # 256 loads of fp16: the last that a warp takes
    (5, 2056, 1),  # a block
    (3, 4097, 1),  # no 16-byte loads
    (1, 4097, 1),  # a single row: 16-byte loads and a tail
    (1, 100003, 1),  # in parts
    (2, 65536, 1),
    (1, 7, 2),
    (1, 1000, 8),
    (3, 33, 40),
    (2, 9, 136),
    (1, 3, 2056),
    (1, 1, 4096),
    (1, 5000, 24),  # in parts
    (2, 3000, 31),  # likewise, no 16-byte loads
    (5, 64, 264),
]


def assert_summed(out: torch.Tensor, x: torch.Tensor, dim: tuple[int, ...], keepdim: bool = False) -> None:
    expected = reference(x, dim, keepdim)
    assert out.shape == expected.shape
    assert out.dtype == x.dtype
    # One rounding to the dtype; the interpreter truncates to bfloat16, hence a whole unit. Sums of normal numbers
    # cancel: what fp32 loses on the way is small against the sum of magnitudes, not against the sum.
    magnitude = reference(x.abs(), dim, keepdim).max().item() if x.numel() else 0.0
    torch.testing.assert_close(
        out.double(), expected, rtol=torch.finfo(x.dtype).eps, atol=max(magnitude * 2.0**-20, 1e-12)
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_a_dimension(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    x = torch.randn(shape, dtype=dtype, device=device)
    before = x.clone()
    assert_summed(kernels.reduce_sum(x, 1), x, (1,))
    assert torch.equal(x, before)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_element_counts_once(shape: tuple[int, ...], device: str) -> None:
    # Whole numbers that fp32 adds without an error, each with a bit pattern of its own place.
    x = (torch.arange(torch.Size(shape).numel(), device=device) % 61).float().view(shape)
    assert torch.equal(kernels.reduce_sum(x, 1), x.double().sum(1).float())


LARGE = [  # (outer, reduced, inner), for a GPU alone
    (1030, 4096, 1),  # one turn of a block a row, whole
    (1030, 4104, 1),  # of fp16 a piece more than that
    (1025, 8200, 1),  # and of fp32
    (1, 4097, 520),  # parts that take turns, the last of which finds less
    (1, 5001, 4096),
    (1, 300001, 24),  # hundreds of parts
    (1, 300001, 5),  # likewise, no 16-byte loads
    (64, 67, 4096),  # blocks enough without parts
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_every_element_of_much_counts_once(shape: tuple[int, ...], dtype: torch.dtype, cuda: str) -> None:
    x = (torch.arange(torch.Size(shape).numel(), device=cuda) % 61).to(dtype).view(shape)
    out = kernels.reduce_sum(x, 1)
    assert torch.equal(out, x.double().sum(1).float().to(dtype))  # whole numbers, which fp32 adds without an error
    assert torch.equal(out, kernels.reduce_sum(x, 1))


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [c for n in range(1, 5) for c in itertools.combinations(range(4), n)], ids=str)
def test_any_dimensions_may_be_summed(dim: tuple[int, ...], keepdim: bool, device: str) -> None:
    x = torch.randn(3, 8, 5, 16, dtype=torch.float16, device=device)
    out = kernels.reduce_sum(x, dim, keepdim=keepdim)
    assert out.is_contiguous()
    assert_summed(out, x, dim, keepdim)


def test_fp32_carries_from_one_group_of_dimensions_to_the_next(device: str) -> None:
    # In fp16 4096 + 1 is 4096: summed over one dimension, and rounded, the ones would be lost.
    x = torch.ones(64, 3, 64, dtype=torch.float16, device=device)
    x[0, :, 0] = 0.5
    x = x * torch.tensor([1.0, 4.0, 7.75], device=device).half()[:, None]
    assert torch.equal(kernels.reduce_sum(x, (0, 2)), x.double().sum((0, 2)).half())


def test_dim_may_be_left_out_or_count_from_the_end(device: str) -> None:
    x = torch.randn(3, 4, 5, device=device)
    assert_summed(kernels.reduce_sum(x), x, (0, 1, 2))
    assert_summed(kernels.reduce_sum(x, keepdim=True), x, (0, 1, 2), True)
    assert_summed(kernels.reduce_sum(x, (-1, 0)), x, (2, 0))
    scalar = torch.tensor(3.0, device=device)
    assert torch.equal(kernels.reduce_sum(scalar), scalar)


def test_dimensions_of_one_are_dropped_or_kept(device: str) -> None:
    x = torch.randn(4, 1, 6, device=device)
    assert torch.equal(kernels.reduce_sum(x, 1), x[:, 0])
    assert torch.equal(kernels.reduce_sum(x, 1, keepdim=True), x)


STRIDED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": lambda x: x.transpose(0, 2),
    "every other row": lambda x: x[:, ::2],
    "begins at an odd address": lambda x: torch.cat((x.flatten()[:1], x.flatten()))[1:].view(x.shape),
    "expanded": lambda x: x[:, :1].expand(x.shape),
}


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("layout", STRIDED)
def test_strides_are_free(layout: str, dim: int, device: str) -> None:
    x = STRIDED[layout](torch.randn(6, 10, 16, dtype=torch.float16, device=device))
    assert_summed(kernels.reduce_sum(x, dim), x, (dim,))


def test_a_sum_of_nothing_is_zero_and_nothing_of_sums_is_empty(device: str) -> None:
    assert kernels.reduce_sum(torch.empty(3, 0, device=device), 1).tolist() == [0.0, 0.0, 0.0]
    assert kernels.reduce_sum(torch.empty(3, 0, device=device), 0).shape == (0,)


def test_infinity_and_nan_stay_where_they_belong(device: str) -> None:
    x = torch.ones(4, 100, device=device)
    x[1, 50], x[2, 99] = torch.inf, torch.nan
    out = kernels.reduce_sum(x, 1).tolist()
    assert out[0] == out[3] == 100
    assert out[1] == float("inf")
    assert out[2] != out[2]


REFUSED: dict[str, Callable[[torch.Tensor], object]] = {
    "reduce_sum: x must be float16, bfloat16 or float32, got int64": lambda x: kernels.reduce_sum(x.long()),
    "reduce_sum: dim must lie in [-2, 1], got 2 for x of shape [3, 4]": lambda x: kernels.reduce_sum(x, 2),
    "reduce_sum: dim must lie in [-2, 1], got -3 for x of shape [3, 4]": lambda x: kernels.reduce_sum(x, (0, -3)),
    "reduce_sum: dim names dimension 1 twice": lambda x: kernels.reduce_sum(x, (1, -1)),
    "reduce_sum: dim must name at least one dimension, got none": lambda x: kernels.reduce_sum(x, ()),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_errors_state_what_was_passed_and_what_is_expected(sentence: str, device: str) -> None:
    with pytest.raises(RuntimeError) as refusal:
        REFUSED[sentence](torch.zeros(3, 4, device=device))
    assert str(refusal.value).splitlines()[0] == sentence


@pytest.mark.parametrize("keepdim", [False, True])
def test_is_a_well_behaved_operator(keepdim: bool, device: str) -> None:
    x = torch.randn(3, 4, 5, dtype=torch.float16, device=device)
    for dim in ([1], [-1, 0]):
        torch.library.opcheck(torch.ops.warpwatch.reduce_sum.default, (x, dim, keepdim), raise_exception=True)


def test_compiles_without_graph_breaks(device: str) -> None:
    @torch.compile(fullgraph=True)
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return kernels.reduce_sum(x, (0, -1)) * 2

    x = torch.randn(3, 4, 5, device=device)
    assert torch.equal(doubled(x), kernels.reduce_sum(x, (0, -1)) * 2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_triton_twin_agrees(
    shape: tuple[int, ...], dtype: torch.dtype, device: str, twin: Callable[[str], Callable[..., torch.Tensor]]
) -> None:
    x = torch.randn(shape, dtype=dtype, device=device)
    assert_summed(twin("reduce_sum")(x, 1), x, (1,))
    assert_summed(twin("reduce_sum")(x, (0, 2), keepdim=True), x, (0, 2), True)


def test_a_call_repeated_gives_the_same_bits(cuda: str) -> None:
    x = torch.randn(2**22, device=cuda)
    first = kernels.reduce_sum(x)
    assert all(torch.equal(kernels.reduce_sum(x), first) for _ in range(5))
    columns = x.view(-1, 64)
    first = kernels.reduce_sum(columns, 0)
    assert all(torch.equal(kernels.reduce_sum(columns, 0), first) for _ in range(5))


def test_replays_from_a_cuda_graph(cuda: str) -> None:
    x = torch.randn(2**20, device=cuda)
    kernels.reduce_sum(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = kernels.reduce_sum(x)
    x.copy_(torch.randn_like(x))
    graph.replay()
    assert_summed(out, x, (0,))


@pytest.mark.parametrize("start", [0, 1], ids=["pieces", "elements"])
def test_offsets_beyond_32_bits(start: int, cuda: str) -> None:
    if torch.cuda.mem_get_info()[0] < 20 * 2**30:
        pytest.skip("needs 20 GiB of free GPU memory")
    count = 2**31 + 4096
    x = torch.zeros(count + 8, dtype=torch.float16, device=cuda)[start : count + start]
    x[-100:] = 1
    assert kernels.reduce_sum(x).item() == 100
    assert kernels.reduce_sum(x.view(-1, 64), 0).sum().item() == 100
    assert kernels.reduce_sum(x.view(-1, 64), 1).float().sum().item() == 100


# Small sums, of which a block takes several: outer indices below, at and above a block's share.
SMALL = list(itertools.product((1, 63, 64, 65, 1000), (1, 2, 5, 8, 33), (2, 4, 9)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SMALL, ids=str)
def test_small_sums_share_a_block(shape: tuple[int, int, int], dtype: torch.dtype, device: str) -> None:
    skip_without_bfloat16(device, dtype)
    x = torch.randint(-3, 4, shape, device=device).to(dtype)  # exact in every order
    assert torch.equal(kernels.reduce_sum(x, 1), x.sum(1))
    assert torch.equal(kernels.reduce_sum(x, 1), kernels.reduce_sum(x, 1))


def test_a_million_small_sums(cuda: str) -> None:
    x = torch.randint(-3, 4, (1 << 20, 8, 4), device=cuda).float()
    assert torch.equal(kernels.reduce_sum(x, 1), x.sum(1))


def test_more_sums_than_a_grid_has_blocks(cuda: str) -> None:
    if torch.cuda.mem_get_info()[0] < 40 << 30:
        pytest.skip("16 GiB of x and 8 of sums want 40 GiB of free memory")
    x = torch.ones(1 << 31, 2, 2, dtype=torch.float16, device=cuda)
    x[-1, 1, 1] = 3.0
    out = kernels.reduce_sum(x, 1)
    assert out.shape == (1 << 31, 2)
    assert out[-1].tolist() == [2.0, 4.0]
    assert out[:: 1 << 20].eq(2.0).all()
