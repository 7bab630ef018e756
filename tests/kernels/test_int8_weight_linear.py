"""int8_weight_linear against float64: edges of tiles, odd sizes, every byte, both sides of where cuBLAS takes over."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from perf_suite.benchmarks.int8_weight_linear import int8_weight_linear as reference
from warpwatch import kernels

from .bfloat16 import skip_without_bfloat16
from .quantized_layers import (
    LAYOUTS,
    Operands,
    assert_replays,
    assert_runs_on_the_current_stream,
    refusal,
    small_operands,
)

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
# On the GPU tiles of x are 8 and 16 rows high, and from 65 on cuBLAS multiplies.
ROWS = [1, 7, 8, 9, 16, 17, 33, 64, 65, 130]
OUTPUTS_AND_DEPTHS = [(1, 1), (17, 16), (33, 4097), (130, 1000), (300, 144), (48, 5120)]


def inputs(device: str, dtype: torch.dtype, rows: int, outputs: int, depth: int) -> Operands:
    """Normal x, a weight of every byte, scales that differ by two orders of magnitude, and a bias."""
    if device == "cuda" and dtype == torch.float32:
        pytest.skip("on the GPU x is float16 or bfloat16")
    skip_without_bfloat16(device, dtype)
    x = torch.randn(rows, depth, device=device).to(dtype)
    weight = torch.randint(-128, 128, (outputs, depth), dtype=torch.int8, device=device)
    scales = 10 ** (2 * torch.rand(outputs, device=device) - 4)
    padded = torch.nn.functional.pad(weight, (0, -depth % 16), value=77)  # what is past K does not count
    return x, padded, scales, torch.randn(outputs, device=device).to(dtype)


def assert_multiplied(
    out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None = None
) -> None:
    # A byte is exact in 16 bits and its products in fp32; adding up K of them in any order leaves less than
    # sqrt(K) 2^-23 of the sum of their magnitudes (2^-22 where an mma truncates as it aligns). The result is rounded
    # once, by half an eps of itself. Where cuBLAS multiplies, each weight has been rounded too, which averages out as
    # sqrt(K) of them are added, and so has the product in front of the bias.
    expected = reference(x, weight, scales, bias)
    eps = torch.finfo(out.dtype).eps
    depth = x.shape[-1]
    magnitude = x.double().abs() @ weight[:, :depth].double().abs().T * scales.double()
    allowed = 0.51 * eps * expected.abs() + depth**0.5 * 2.0**-22 * magnitude
    if out.is_cuda and x.numel() // depth > 64:
        spread = (x.double().square() @ weight[:, :depth].double().square().T).sqrt() * scales.double()
        allowed = allowed + 3 * eps * spread + eps * reference(x, weight, scales).abs()
    if out.dtype == torch.float16:
        allowed = allowed + 2.0**-24
    error = (out.double() - expected).abs()
    assert bool((error <= allowed).all()), f"{(error / allowed).max().item():.3g} times the error allowed"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("rows", "outputs"),
    [(3, 6501), (20, 6501), (50, 13_001), (130, 1000), (300, 3000), (1024, 3001), (1024, 3400), (4097, 70)],
)
def test_many_tiles_along_both_sides(rows: int, outputs: int, dtype: torch.dtype, cuda: str) -> None:
    # Hopper's tiles of 16, 32, 64, 128 and 256 rows, not divided along K, and from 4097 rows on cuBLAS there.
    for depth in (1100, 1104):  # of which TMA takes the second alone
        x, weight, scales, bias = inputs(cuda, dtype, rows, outputs, depth)
        assert_multiplied(kernels.int8_weight_linear(x, weight, scales, bias), x, weight, scales, bias)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", OUTPUTS_AND_DEPTHS, ids=str)
@pytest.mark.parametrize("rows", ROWS)
def test_agrees_with_float64_at_the_edges_of_tiles(
    rows: int, shape: tuple[int, int], dtype: torch.dtype, device: str
) -> None:
    x, weight, scales, bias = inputs(device, dtype, rows, *shape)
    out = kernels.int8_weight_linear(x, weight, scales, bias)
    assert (out.dtype, out.shape) == (dtype, (rows, shape[0]))
    assert_multiplied(out, x, weight, scales, bias)
    assert_multiplied(kernels.int8_weight_linear(x, weight, scales), x, weight, scales)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [3, 20])
def test_each_byte_at_each_place_is_exact(rows: int, dtype: torch.dtype, device: str) -> None:
    # Output n sees the byte n - 128 at one k alone, where x is one.
    x, weight, scales, _ = inputs(device, dtype, rows, 256, 256)
    for shift in (0, 1, 17):
        x.zero_()
        k = torch.arange(rows, device=device) * 3 + shift
        x[torch.arange(rows, device=device), k] = 1
        weight.copy_((torch.arange(256, device=device) - 128).to(torch.int8)[:, None].expand(256, 256))
        out = kernels.int8_weight_linear(x, weight, torch.ones_like(scales))
        assert torch.equal(out.long(), (torch.arange(256, device=device) - 128).expand(rows, 256))


@pytest.mark.parametrize("rows", [3, 20, 100])
def test_each_k_meets_its_own_weight(rows: int, device: str) -> None:
    depth = 127
    x = torch.arange(1, depth + 1, device=device).expand(rows, depth).half().contiguous()
    weight = torch.nn.functional.pad(torch.eye(depth, dtype=torch.int8, device=device), (0, 1))
    assert torch.equal(kernels.int8_weight_linear(x, weight, torch.ones(depth, device=device)), x)


@pytest.mark.parametrize("rows", [1, 20])
def test_an_infinite_x_stays_in_its_row(rows: int, device: str) -> None:
    x, weight, scales, _ = inputs(device, torch.float16, rows + 1, 40, 256)
    x[rows, 17] = torch.inf
    out = kernels.int8_weight_linear(x, weight, scales)
    assert not out[rows].isfinite().any()
    assert_multiplied(out[:rows], x[:rows], weight, scales)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_leading_dimensions_are_free(layout: str, device: str) -> None:
    x, weight, scales, bias = inputs(device, torch.float16, 24, 33, 250)
    x = LAYOUTS[layout](x)
    out = kernels.int8_weight_linear(x, weight, scales, bias)
    assert out.shape == (*x.shape[:-1], 33)
    assert out.is_contiguous()
    assert_multiplied(out, x, weight, scales, bias)


@pytest.mark.parametrize(("rows", "outputs"), [(0, 5), (3, 0), (0, 0)])
def test_nothing_to_do_gives_an_empty_tensor(rows: int, outputs: int, device: str) -> None:
    x, weight, scales, _ = inputs(device, torch.float16, rows, outputs, 100)
    assert kernels.int8_weight_linear(x, weight, scales).shape == (rows, outputs)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("rows", "outputs", "depth"), [(1, 17, 128), (17, 130, 200), (70, 40, 320)])
def test_triton_twin_agrees(
    rows: int,
    outputs: int,
    depth: int,
    dtype: torch.dtype,
    device: str,
    twin: Callable[[str], Callable[..., torch.Tensor]],
) -> None:
    if device == "cpu" and dtype == torch.bfloat16:
        pytest.skip("Triton's interpreter does not multiply bfloat16")
    x, weight, scales, bias = inputs(device, dtype, rows, outputs, depth)
    x = x.view(rows, 1, depth)
    for shift in (None, bias):
        assert_multiplied(twin("int8_weight_linear")(x, weight, scales, shift), x, weight, scales, shift)


@pytest.mark.parametrize("rows", [1, 100, 1100], ids=["direct", "direct on Hopper", "cuBLAS"])
def test_a_weight_beyond_float16_is_never_a_wrong_number(rows: int, device: str) -> None:
    # 127 * 600 is beyond float16, where cuBLAS is to have the weight; what sums up to is not.
    x = torch.full((rows, 16), 0.01, dtype=torch.float16, device=device)
    weight = torch.full((3, 16), 127, dtype=torch.int8, device=device)
    weight[1] = 64
    out = kernels.int8_weight_linear(x, weight, torch.full((3,), 600.0, device=device))
    expected = reference(x, weight, torch.full((3,), 600.0, device=device))
    wrong = (out.double() - expected).abs() > 2.0**-10 * expected
    assert not bool((wrong & out.isfinite()).any())
    if rows == 1 or device == "cpu":
        assert not bool(wrong.any())
    assert not bool(wrong[:, 1].any())  # 64 * 600 is a float16


@pytest.mark.parametrize("rows", [1, 100], ids=["direct", "cuBLAS"])
def test_replays_from_a_cuda_graph(rows: int, cuda: str) -> None:
    assert_replays(kernels.int8_weight_linear, inputs(cuda, torch.float16, rows, 300, 4096), assert_multiplied)


@pytest.mark.parametrize("rows", [1, 100])
def test_runs_on_the_current_stream(rows: int, cuda: str) -> None:
    operands = inputs(cuda, torch.float16, rows, 300, 4096)
    assert_runs_on_the_current_stream(kernels.int8_weight_linear, operands, assert_multiplied)


def test_offsets_beyond_32_bits(cuda: str) -> None:
    outputs, depth = 40_000, 65_536  # 2.6e9 bytes of weights
    if torch.cuda.mem_get_info()[0] < 14 * 2**30:
        pytest.skip("needs 14 GiB of free GPU memory")
    weight = torch.empty(outputs, depth, dtype=torch.int8, device=cuda)
    last = torch.randint(-128, 128, (64, depth), dtype=torch.int8, device=cuda)
    weight[-64:] = last
    scales = torch.full((outputs,), 0.0001, device=cuda)
    for rows in (1, 17, 70):
        x = torch.randn(rows, depth, device=cuda).half()
        assert_multiplied(kernels.int8_weight_linear(x, weight, scales)[:, -64:], x, last, scales[-64:])


REFUSED: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], Operands]] = {
    "int8_weight_linear: x must have at least one dimension (..., K), got a scalar": (
        lambda x, w, s, b: (x[0, 0], w, s, b)
    ),
    "int8_weight_linear: K must be at least 1, got x of shape [3, 0]": lambda x, w, s, b: (x[:, :0], w, s, b),
    "int8_weight_linear: the last dimension of x must be contiguous (stride 1), got strides [400, 2] for shape [3, 200]"
    "": lambda x, w, s, b: (x.repeat_interleave(2, dim=1)[:, ::2], w, s, b),
    "int8_weight_linear: weight must be int8, got uint8": lambda x, w, s, b: (x, w.to(torch.uint8), s, b),
    "int8_weight_linear: weight must have shape [5, 208] (N, K rounded up to a multiple of 16), got [5, 200]": (
        lambda x, w, s, b: (x, w[:, :200], s, b)
    ),
    "int8_weight_linear: weight_scales must have shape [5] (N), got [4]": lambda x, w, s, b: (x, w, s[:4], b),
    "int8_weight_linear: weight_scales must be float32, got float16": lambda x, w, s, b: (x, w, s.half(), b),
    "int8_weight_linear: x and bias differ in dtype: float16 against float32": lambda x, w, s, b: (x, w, s, b.float()),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_errors_state_what_was_passed_and_what_is_expected(sentence: str, device: str) -> None:
    assert refusal(kernels.int8_weight_linear, *REFUSED[sentence](*small_operands(device))) == sentence


def test_says_which_dtypes_the_gpu_takes(cuda: str) -> None:
    x, weight, scales, _ = small_operands(cuda)
    with pytest.raises(RuntimeError, match="int8_weight_linear: x must be float16 or bfloat16, got float32"):
        kernels.int8_weight_linear(x.float(), weight, scales)


@pytest.mark.parametrize("rows", [1, 100])
def test_is_a_well_behaved_operator(rows: int, device: str) -> None:
    _, weight, scales, bias = small_operands(device)
    x = torch.randn(rows, 200, device=device).half()
    for each in (x, x[0], x.view(1, rows, 200), torch.cat((x, x), dim=1)[:, :200]):
        for shift in (None, bias):
            torch.library.opcheck(
                torch.ops.warpwatch.int8_weight_linear.default, (each, weight, scales, shift), raise_exception=True
            )


def test_compiles_without_graph_breaks(device: str) -> None:
    x, weight, scales, bias = small_operands(device)

    @torch.compile(fullgraph=True)
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return kernels.int8_weight_linear(x, weight, scales, bias) * 2

    assert torch.equal(doubled(x), kernels.int8_weight_linear(x, weight, scales, bias) * 2)
