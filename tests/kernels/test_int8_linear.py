"""int8_linear and quantize_int8_per_token against the references: edges of tiles, odd sizes, splits of K, extremes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from perf_suite.benchmarks.int8_linear import int8_linear as reference
from perf_suite.benchmarks.int8_linear import quantised
from warpwatch import kernels

from .quantized_layers import LAYOUTS, Operands, assert_replays, assert_runs_on_the_current_stream
from .triton_compiler import compile_for

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
# On the GPU tiles of x are 8, 16, 32, 64 and 128 rows high; 129 needs a second one. 17 divide K between blocks.
ROWS = [1, 2, 7, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129]
# Tiles of outputs are 16 and 128 wide; chunks of K 16, 64 and 128, of which the last may be a part.
OUTPUTS_AND_DEPTHS = [(1, 1), (17, 16), (33, 4097), (130, 1000), (1000, 144), (48, 5120)]


def inputs(device: str, dtype: torch.dtype, rows: int, outputs: int, depth: int) -> Operands:
    """x whose rows differ by four orders of magnitude, a weight of every byte but -128, scales, and a bias."""
    x = (torch.randn(rows, depth, device=device) * 10 ** (4 * torch.rand(rows, 1, device=device) - 2)).to(dtype)
    weight = torch.randint(-127, 128, (outputs, depth), dtype=torch.int8, device=device)
    weight = torch.nn.functional.pad(weight, (0, -depth % 16))
    scales = 10 ** (2 * torch.rand(outputs, device=device) - 4)
    return x, weight, scales, torch.randn(outputs, device=device).to(dtype)


def assert_multiplied(
    out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None = None
) -> None:
    # Sums of 8-bit products are exact. What follows is the sum as fp32, two products and the bias, each rounded to
    # 2^-24 of what it gives, and the result rounded once to its dtype.
    expected = reference(x, weight, scales, bias)
    product = reference(x, weight, scales)
    allowed = 0.51 * torch.finfo(out.dtype).eps * expected.abs() + 2.0**-22 * (product.abs() + expected.abs())
    if out.dtype == torch.float16:
        allowed = allowed + 2.0**-25  # half of the smallest step
    error = (out.double() - expected).abs()
    assert bool((error <= allowed).all()), f"{(error / allowed).max().item():.3g} times the error allowed"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", OUTPUTS_AND_DEPTHS, ids=str)
@pytest.mark.parametrize("rows", ROWS)
def test_agrees_with_float64_at_the_edges_of_tiles(
    rows: int, shape: tuple[int, int], dtype: torch.dtype, device: str
) -> None:
    x, weight, scales, bias = inputs(device, dtype, rows, *shape)
    out = kernels.int8_linear(x, weight, scales, bias)
    assert out.dtype == dtype
    assert out.shape == (rows, shape[0])
    assert_multiplied(out, x, weight, scales, bias)
    assert_multiplied(kernels.int8_linear(x, weight, scales), x, weight, scales)


@pytest.mark.parametrize(
    ("rows", "outputs"),
    [(40, 1100), (300, 1100), (2100, 1100), (300, 3001), (40, 6501), (100, 13_001), (129, 13_001), (2100, 2003)],
)
def test_many_tiles_along_both_sides(rows: int, outputs: int, cuda: str) -> None:
    # 2100 rows are 17 tiles of 128: one more than a group of tiles that run together. Hopper has other tiles where
    # there are enough of them to give most multiprocessors one: all but the first two.
    operands = inputs(cuda, torch.float16, rows, outputs, 1040)
    assert_multiplied(kernels.int8_linear(*operands), *operands)


@pytest.mark.parametrize("rows", [3, 20, 100])
@pytest.mark.parametrize("value", [127, -127, -128])
def test_every_weight_at_an_extreme(value: int, rows: int, device: str) -> None:
    x, weight, scales, _ = inputs(device, torch.float32, rows, 40, 512)
    weight.fill_(value)
    x.copy_(x.abs().amax(dim=-1, keepdim=True).expand(x.shape))  # all at 127
    assert_multiplied(kernels.int8_linear(x, weight, scales), x, weight, scales)


def test_the_largest_sums_fit(device: str) -> None:
    depth = 131072
    x = torch.ones(20, depth, device=device)
    weight = torch.full((3, depth), -128, dtype=torch.int8, device=device)
    out = kernels.int8_linear(x, weight, torch.ones(3, device=device))
    assert_multiplied(out, x, weight, torch.ones(3, device=device))


@pytest.mark.parametrize("rows", [3, 20, 100])
def test_each_k_meets_its_own_weight(rows: int, device: str) -> None:
    # One weight that is not zero in each output, at another k each time; x says which k it is. All of it is exact.
    depth = 127
    x = torch.arange(1, depth + 1, device=device).expand(rows, depth).float().contiguous()
    weight = torch.nn.functional.pad(torch.eye(depth, dtype=torch.int8, device=device), (0, 1))
    assert torch.equal(kernels.int8_linear(x, weight, torch.ones(depth, device=device)), x)


def test_bytes_of_the_weight_past_k_do_not_count(device: str) -> None:
    x, weight, scales, _ = inputs(device, torch.float32, 20, 40, 200)
    expected = kernels.int8_linear(x, weight, scales)
    weight[:, 200:] = 77
    assert torch.equal(kernels.int8_linear(x, weight, scales), expected)


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan], ids=str)
@pytest.mark.parametrize("rows", [1, 20])
def test_what_is_not_finite_stays_in_its_row(rows: int, value: float, device: str) -> None:
    x, weight, scales, _ = inputs(device, torch.float16, rows + 1, 40, 256)
    x[rows, 17] = value
    out = kernels.int8_linear(x, weight, scales)
    assert not out[rows].isfinite().any()
    assert_multiplied(out[:rows], x[:rows], weight, scales)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_leading_dimensions_are_free(layout: str, device: str) -> None:
    x, weight, scales, bias = inputs(device, torch.float16, 24, 33, 250)
    x = LAYOUTS[layout](x)
    out = kernels.int8_linear(x, weight, scales, bias)
    assert out.shape == (*x.shape[:-1], 33)
    assert out.is_contiguous()
    assert_multiplied(out, x, weight, scales, bias)


@pytest.mark.parametrize("shape", [(0, 100), (2, 0, 100)], ids=str)
def test_no_rows_give_an_empty_tensor(shape: tuple[int, ...], device: str) -> None:
    _, weight, scales, _ = inputs(device, torch.float16, 1, 5, 100)
    x = torch.empty(shape, dtype=torch.float16, device=device)
    assert kernels.int8_linear(x, weight, scales).shape == (*shape[:-1], 5)
    values, x_scales = kernels.quantize_int8_per_token(x)
    assert (values.shape, x_scales.shape) == ((*shape[:-1], 112), shape[:-1])


def test_no_outputs_give_an_empty_tensor(device: str) -> None:
    x, weight, scales, _ = inputs(device, torch.float16, 3, 0, 100)
    assert kernels.int8_linear(x, weight, scales).shape == (3, 0)


@pytest.mark.parametrize("rows", [1, 64, 128])
def test_the_same_input_gives_the_same_bits(rows: int, device: str) -> None:
    operands = inputs(device, torch.float16, rows, 300, 4096)
    first = kernels.int8_linear(*operands)
    assert all(torch.equal(first, kernels.int8_linear(*operands)) for _ in range(5))


@pytest.mark.parametrize("rows", [1, 16, 64, 128])
def test_calls_behind_each_other_take_their_own_tokens(rows: int, cuda: str) -> None:
    # The product begins while its tokens are still being quantized, into memory that the call before has used.
    x, weight, scales, _ = inputs(cuda, torch.float16, 20 * rows, 1000, 4096)
    out = torch.cat([kernels.int8_linear(part, weight, scales) for part in x.split(rows)])
    assert_multiplied(out, x, weight, scales)


def assert_quantized(x: torch.Tensor, values: torch.Tensor, scales: torch.Tensor) -> None:
    wanted_values, wanted_scales = quantised(x)
    depth = x.shape[-1]
    assert torch.equal(scales, wanted_scales)
    assert torch.equal(values[..., :depth], wanted_values)
    assert values.shape == (*x.shape[:-1], -(-depth // 16) * 16)
    assert not values[..., depth:].any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 15), (2, 5, 16), (7, 17), (4, 4096), (2, 4097), (1, 30000)], ids=str)
def test_tokens_are_quantized_to_the_bit(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    x = (torch.randn(shape, device=device) * 10 ** torch.randn(*shape[:-1], 1, device=device)).to(dtype)
    assert_quantized(x, *kernels.quantize_int8_per_token(x))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tokens_lie_as_they_like(layout: str, device: str) -> None:
    x = LAYOUTS[layout](torch.randn(24, 250, device=device).half())
    assert_quantized(x, *kernels.quantize_int8_per_token(x))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_zeros_and_the_smallest_numbers_are_quantized(dtype: torch.dtype, device: str) -> None:
    x = torch.zeros(3, 40, dtype=dtype, device=device)
    x[1, 5], x[2, 7] = torch.finfo(dtype).tiny * torch.finfo(dtype).eps, torch.finfo(dtype).max
    values, scales = kernels.quantize_int8_per_token(x)
    assert_quantized(x, values, scales)
    assert values[2, 7] == 127


def test_ties_go_to_even(device: str) -> None:
    x = torch.tensor([[127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, -127.0]], device=device)
    values, scales = kernels.quantize_int8_per_token(x)
    assert values[0].tolist() == [127, 0, 2, 2, 0, -2, -2, -127] + 8 * [0]
    assert scales.tolist() == [1.0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("rows", "outputs", "depth"), [(1, 17, 128), (17, 130, 1000), (70, 40, 320), (3, 5, 1)])
def test_triton_twin_agrees(
    rows: int,
    outputs: int,
    depth: int,
    dtype: torch.dtype,
    device: str,
    twin: Callable[[str], Callable[..., torch.Tensor]],
) -> None:
    x, weight, scales, bias = inputs(device, dtype, rows, outputs, depth)
    x = x.view(rows, 1, depth)
    for shift in (None, bias):
        out = twin("int8_linear")(x, weight, scales, shift)
        expected = reference(x, weight, scales, shift)
        # Its division may differ in the last place, which can turn a tie: one step of one product. The interpreter
        # truncates to bfloat16, hence a whole unit and not half of one.
        step = x.abs().amax(dim=-1, keepdim=True).double() * scales.double()
        allowed = torch.finfo(dtype).eps * expected.abs() + 2.0**-20 * reference(x, weight, scales).abs() + 1.01 * step
        assert out.shape == (rows, 1, outputs)
        assert bool(((out.double() - expected).abs() <= allowed).all())


# Each configuration, and each generation with the largest tile.
@pytest.mark.parametrize(
    ("rows", "compute_capability", "aligned"),
    [
        (1, 75, True),
        (64, 90, True),
        (128, 120, True),
        *((2048, each, True) for each in (75, 80, 90, 120)),
        (64, 90, False),
    ],
)
def test_triton_twin_compiles_for_gpus_that_are_not_here(rows: int, compute_capability: int, aligned: bool) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    from warpwatch.kernels.triton.int8_linear import _int8_linear, _quantize_int8_rows, int8_linear_config

    config = int8_linear_config(rows=rows, outputs=4096)
    types = {
        "x_scales_ptr": "*fp32",
        "weight_ptr": "*i8",
        "weight_scales_ptr": "*fp32",
        "bias_ptr": "*fp16",
        "out_ptr": "*fp16",
        "values_ptr": "*i8",
        "scales_ptr": "*fp32",
    }
    product = {
        "HAS_BIAS": True,
        "THROUGH_HALF": compute_capability < 80,
        "BLOCK_ROWS": config.block_rows,
        "BLOCK_OUTPUTS": config.block_outputs,
        "BLOCK_DEPTH": config.block_depth,
    }
    for function, constants, x in ((_int8_linear, product, "*i8"), (_quantize_int8_rows, {"BLOCK": 4096}, "*fp16")):
        compiled = compile_for(
            compute_capability,
            function,
            {**types, "x_ptr": x},
            constants,
            lengths=("n_outputs", "depth", "padded"),
            aligned=aligned,
            num_warps=config.num_warps,
            num_stages=config.num_stages,
        )
        assert compiled.asm["cubin"]


@pytest.mark.parametrize("rows", [1, 64], ids=["decode", "split over k"])
def test_replays_from_a_cuda_graph(rows: int, cuda: str) -> None:  # the counters of the splits start anew
    assert_replays(kernels.int8_linear, inputs(cuda, torch.float16, rows, 300, 4096), assert_multiplied)


@pytest.mark.parametrize("rows", [1, 64])
def test_runs_on_the_current_stream(rows: int, cuda: str) -> None:
    operands = inputs(cuda, torch.float16, rows, 300, 4096)
    assert_runs_on_the_current_stream(kernels.int8_linear, operands, assert_multiplied)


def test_offsets_beyond_32_bits(cuda: str) -> None:
    outputs, depth = 40_000, 65_536  # 2.6e9 bytes of weights
    if torch.cuda.mem_get_info()[0] < 8 * 2**30:
        pytest.skip("needs 8 GiB of free GPU memory")
    weight = torch.empty(outputs, depth, dtype=torch.int8, device=cuda)
    last = torch.randint(-127, 128, (64, depth), dtype=torch.int8, device=cuda)
    weight[-64:] = last
    scales = torch.full((outputs,), 0.001, device=cuda)
    for rows in (1, 17, 129):
        x = torch.randn(rows, depth, device=cuda)
        assert_multiplied(kernels.int8_linear(x, weight, scales)[:, -64:], x, last, scales[-64:])


def test_results_beyond_32_bits(cuda: str) -> None:
    rows, outputs = 70_000, 32_768  # 2.3e9 results
    if torch.cuda.mem_get_info()[0] < 12 * 2**30:
        pytest.skip("needs 12 GiB of free GPU memory")
    x, weight, scales, _ = inputs(cuda, torch.float16, rows, outputs, 32)
    out = kernels.int8_linear(x, weight, scales)
    assert_multiplied(out[-100:], x[-100:], weight, scales)
    assert_multiplied(out[65_500:65_600], x[65_500:65_600], weight, scales)
