"""The linear layers with an activation and without against float64: each way a GPU takes, tile edges, odd sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from perf_suite.benchmarks.linear import linear as linear_reference
from perf_suite.benchmarks.linear_gelu import linear_gelu as gelu_reference
from perf_suite.benchmarks.linear_silu import linear_silu as silu_reference
from perf_suite.benchmarks.swiglu import swiglu as swiglu_reference
from warpwatch import kernels

from .bfloat16 import skip_without_bfloat16

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
Layer = Callable[..., torch.Tensor]


LAYERS: dict[str, tuple[Layer, Layer]] = {
    "no activation": (kernels.linear, linear_reference),
    "gelu": (kernels.linear_gelu, gelu_reference),
    "gelu by tanh": (
        lambda *given: kernels.linear_gelu(*given, approximate="tanh"),
        lambda *given: gelu_reference(*given, approximate="tanh"),
    ),
    "silu": (kernels.linear_silu, silu_reference),
}


def inputs(
    device: str, dtype: torch.dtype, rows: int, outputs: int, depth: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    skip_without_bfloat16(device, dtype)
    x = torch.randn(rows, depth, device=device).to(dtype)
    weight = (torch.randn(outputs, depth, device=device) * 2 * depth**-0.5).to(dtype)
    return x, weight, torch.randn(outputs, device=device).to(dtype)


def allowance(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
    """By how much a layer's value in front of the activation, and so 1.13 times that behind it, may be off.

    Adding up K products in any order leaves less than sqrt(K) 2^-22 of the sum of their magnitudes; PyTorch's product
    is rounded to its dtype, by half an eps of itself, and so are parts of K that cuBLAS may add up in it.
    """
    product = x.double() @ weight.double().T
    magnitude = x.double().abs() @ weight.double().abs().T
    eps = torch.finfo(dtype).eps
    spread = (x.double().square() @ weight.double().square().T).sqrt()
    off = 1.5 * eps * (product.abs() + spread) + x.shape[-1] ** 0.5 * 2.0**-22 * magnitude
    return off if bias is None else off + 2.0**-22 * bias.double().abs()


def assert_close(out: torch.Tensor, expected: torch.Tensor, off: torch.Tensor) -> None:
    eps = torch.finfo(out.dtype).eps
    allowed = 1.13 * off + (0.51 * eps + 2.0**-20) * expected.abs() + 2.0**-24
    error = (out.double() - expected).abs()
    assert bool((error <= allowed).all()), f"{(error / allowed).max().item():.3g} times the error allowed"


# On the GPU the first shapes go to cuBLAS and the wide ones to the fused kernel, whose tiles are 32, 64 and 128 rows
# high, 128 wide and 64 deep; the last two are off the 16-byte boundaries that it wants.
SHAPES = [(1, 1, 1), (3, 17, 40), (65, 130, 1000), (5, 33, 4097)]
WIDE = [(1, 17_000, 72), (33, 17_001, 264), (64, 17_000, 1000), (128, 17_000, 64), (100, 17_000, 129)]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_layers_agree_with_float64(shape: tuple[int, int, int], dtype: torch.dtype, layer: str, device: str) -> None:
    x, weight, bias = inputs(device, dtype, *shape)
    run, reference = LAYERS[layer]
    for shift in (None, bias):
        out = run(x, weight, shift)
        assert (out.dtype, out.shape) == (dtype, shape[:2])
        assert_close(out, reference(x, weight, shift), allowance(x, weight, shift, dtype))


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("shape", WIDE, ids=str)
def test_wide_layers_agree_with_float64(shape: tuple[int, int, int], dtype: torch.dtype, layer: str, cuda: str) -> None:
    x, weight, bias = inputs(cuda, dtype, *shape)
    run, reference = LAYERS[layer]
    for shift in (None, bias):
        assert_close(run(x, weight, shift), reference(x, weight, shift), allowance(x, weight, shift, dtype))


# One and two rows of Hopper's own kernel. Depths: less than a warp's load, short rows with and without an end, the
# longest short row, long ones of which a warp has nothing, one slab, an end or several slabs; outputs that end inside
# of a warp's rows.
FEW = [
    (rows, outputs, depth)
    for rows in (1, 2)
    for outputs in (1, 7, 130)
    for depth in (8, 256, 768, 1000, 1024, 1032, 4096, 4104, 14336)
]
# 3 to 128 rows of Hopper's kernel that streams the weight: one and two warpgroups, full and not; tiles of 96 and of 128
# outputs, one for each CTA or two for some, with an end inside of a tile and an odd number of outputs; depths of less
# than a slab, of one slab, and of more slabs than stages with an end.
STREAMED = [
    (rows, outputs, depth)
    for rows in (3, 64, 65, 128)
    for outputs in (6_100, 13_701, 17_000)
    for depth in (8, 64, 1032)
]


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("shape", FEW + STREAMED, ids=str)
def test_few_rows_agree_with_float64(shape: tuple[int, int, int], dtype: torch.dtype, cuda: str) -> None:
    rows, outputs, depth = shape
    x, wide, bias = inputs(cuda, dtype, rows, 2 * outputs, depth)
    x, wide = torch.cat((x, x), dim=1)[:, :depth], torch.cat((wide, wide), dim=1)[:, :depth]  # rows with a stride
    weight, up, up_bias, bias = wide[:outputs], wide[outputs:], bias[outputs:], bias[:outputs]
    for run, reference in LAYERS.values():
        for shift in (None, bias):
            out = run(x, weight, shift)
            assert_close(out, reference(x, weight, shift), allowance(x, weight, shift, dtype))
            assert torch.equal(run(x, weight, shift), out)  # sums are added up in one order
    for biases in ((None, None), (bias, None), (None, up_bias), (bias, up_bias)):
        out = kernels.swiglu(x, weight, up, *biases)
        assert_close(out, swiglu_reference(x, weight, up, *biases), swiglu_allowance(x, weight, up, *biases))


def surrounded(matrix: torch.Tensor) -> torch.Tensor:
    """The same matrix inside of a larger one of NaN."""
    rows, columns = matrix.shape
    around = torch.full((rows + 2, columns + 16), float("nan"), dtype=matrix.dtype, device=matrix.device)
    inside = around[1 : rows + 1, 8 : columns + 8]
    inside.copy_(matrix)
    return inside


def test_few_rows_keep_to_their_operands(cuda: str) -> None:
    """What lies beyond rows, columns and outputs is not read into a result, and nothing is written there."""
    for rows, outputs in ((1, 130), (2, 130), (3, 13_700), (70, 13_700)):
        x, weight, _ = inputs(cuda, torch.float16, rows, outputs, 1032)
        expected = kernels.linear(x, weight)
        assert not expected.isnan().any()
        assert torch.equal(kernels.linear(surrounded(x), surrounded(weight)), expected)


def many_rows(cuda: str, dtype: torch.dtype, halves: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows that Hopper's product takes in one launch: one wave of its tiles of 256 × 256, or that and half a wave.

    Rows, outputs (of a layer, and of swiglu's two halves) and depth end inside of a tile; x has a row stride.
    """
    clusters = torch.cuda.get_device_properties(cuda).multi_processor_count // 2
    x, weight, bias = inputs(cuda, dtype, 256 * (clusters + halves * clusters // 2) - 8, 248, 72)
    return torch.cat((x, x), dim=1)[:, :72], weight, bias


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("halves", [False, True])
def test_many_rows_agree_with_float64(halves: bool, dtype: torch.dtype, layer: str, cuda: str) -> None:
    x, weight, bias = many_rows(cuda, dtype, halves)
    run, reference = LAYERS[layer]
    for shift in (None, bias):
        out = run(x, weight, shift)
        assert_close(out, reference(x, weight, shift), allowance(x, weight, shift, dtype))
        assert torch.equal(run(x, weight, shift), out)  # sums are added up in one order


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("halves", [False, True])
def test_swiglu_of_many_rows_agrees_with_float64(halves: bool, dtype: torch.dtype, cuda: str) -> None:
    x, weight, bias = many_rows(cuda, dtype, halves)
    gate, up, gate_bias, up_bias = weight[:124], weight[124:], bias[:124], bias[124:]
    for biases in ((None, None), (gate_bias, None), (None, up_bias), (gate_bias, up_bias)):
        out = kernels.swiglu(x, gate, up, *biases)
        assert_close(out, swiglu_reference(x, gate, up, *biases), swiglu_allowance(x, gate, up, *biases))


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_activations_are_right_far_from_zero(dtype: torch.dtype, layer: str, device: str) -> None:
    x = torch.linspace(-30, 30, 601, device=device).to(dtype)[:, None]
    weight = torch.ones(9, 1, dtype=dtype, device=device)
    run, reference = LAYERS[layer]
    expected = reference(x, weight)
    assert_close(run(x, weight), expected, torch.zeros_like(expected))


def cut(wide: torch.Tensor, width: int) -> torch.Tensor:
    return wide[..., :width]


def test_strides_and_leading_dimensions_are_free(device: str) -> None:
    x, weight, bias = inputs(device, torch.float16, 24, 33, 64)
    wide = torch.cat((weight, weight), dim=1)
    for each in (x[0], x.view(4, 6, 64), x.view(4, 6, 64).transpose(0, 1), cut(torch.cat((x, x), dim=1), 64)):
        out = kernels.linear_gelu(each, cut(wide, 64), bias)
        assert out.shape == (*each.shape[:-1], 33)
        rows = each.reshape(-1, 64)
        assert_close(
            out.reshape(-1, 33), gelu_reference(rows, weight, bias), allowance(rows, weight, bias, torch.float16)
        )


@pytest.mark.parametrize("rows", [2, 64, 4096])
def test_broadcast_rows_are_taken(rows: int, cuda: str) -> None:
    """Rows with a stride of 0, of which TMA takes none."""
    x, weight, bias = inputs(cuda, torch.float16, rows, 13_700, 64)
    for given, matrix in ((x[:1].expand(rows, 64), weight), (x, weight[:1].expand(13_700, 64))):
        out = kernels.linear_silu(given, matrix, bias)
        assert_close(out, silu_reference(given, matrix, bias), allowance(given, matrix, bias, torch.float16))


def test_nothing_to_do_gives_an_empty_tensor(device: str) -> None:
    for rows, outputs in ((0, 5), (3, 0)):
        x, weight, bias = inputs(device, torch.float16, rows, outputs, 16)
        assert kernels.linear_gelu(x, weight, bias).shape == (rows, outputs)
        assert kernels.swiglu(x, weight, weight, bias, bias).shape == (rows, outputs)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, (70, 2048, 256)], ids=str)
def test_swiglu_agrees_with_float64(shape: tuple[int, int, int], dtype: torch.dtype, device: str) -> None:
    x, gate, gate_bias = inputs(device, dtype, *shape)
    _, up, up_bias = inputs(device, dtype, *shape)
    for biases in ((None, None), (gate_bias, None), (None, up_bias), (gate_bias, up_bias)):
        out = kernels.swiglu(x, gate, up, *biases)
        assert (out.dtype, out.shape) == (dtype, shape[:2])
        assert_close(out, swiglu_reference(x, gate, up, *biases), swiglu_allowance(x, gate, up, *biases))


def swiglu_allowance(
    x: torch.Tensor,
    gate: torch.Tensor,
    up: torch.Tensor,
    gate_bias: torch.Tensor | None = None,
    up_bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """What either factor may be off, times the other."""
    off_gate, off_up = allowance(x, gate, gate_bias, x.dtype), allowance(x, up, up_bias, x.dtype)
    ones = x.double() @ up.double().T + (0 if up_bias is None else up_bias.double())
    silu = silu_reference(x, gate, gate_bias)
    return off_gate * ones.abs() + off_up * silu.abs() + off_gate * off_up


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_ffn_gelu_is_a_gelu_between_two_layers(dtype: torch.dtype, approximate: str, device: str) -> None:
    x, up, up_bias = inputs(device, dtype, 20, 96, 40)
    _, down, down_bias = inputs(device, dtype, 20, 24, 96)
    out = kernels.ffn_gelu(x, up, up_bias, down, down_bias, approximate=approximate)
    hidden = kernels.linear_gelu(x, up, up_bias, approximate=approximate)
    expected = hidden.double() @ down.double().T + down_bias.double()
    assert_close(out, expected, allowance(hidden, down, down_bias, dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 17, 128), (17, 130, 200), (70, 40, 320)], ids=str)
def test_triton_twins_agree(
    shape: tuple[int, int, int], dtype: torch.dtype, device: str, twin: Callable[[str], Callable[..., Any]]
) -> None:
    if device == "cpu" and dtype == torch.bfloat16:
        pytest.skip("Triton's interpreter does not multiply bfloat16")
    x, weight, bias = inputs(device, dtype, *shape)
    _, up, up_bias = inputs(device, dtype, *shape)
    off = allowance(x, weight, bias, dtype) + 2.0**-20
    for approximate in ("none", "tanh"):
        out = twin("linear_gelu")(x, weight, bias, approximate=approximate)
        assert_close(out, gelu_reference(x, weight, bias, approximate), off)
        down = torch.randn(24, weight.shape[0], device=device, dtype=dtype) * weight.shape[0] ** -0.5
        out = twin("ffn_gelu")(x, weight, bias, down, approximate=approximate)
        hidden = twin("linear_gelu")(x, weight, bias, approximate=approximate)
        assert_close(out, hidden.double() @ down.double().T, allowance(hidden, down, None, dtype) + 2.0**-20)
    assert_close(twin("linear")(x, weight, bias), linear_reference(x, weight, bias), off)
    silu = twin("linear_silu")(x, weight, bias)
    assert_close(silu, silu_reference(x, weight, bias), off)
    out = twin("swiglu")(x, weight, up, bias, up_bias)
    off = swiglu_allowance(x, weight, up, bias, up_bias) + 2.0**-20
    assert_close(out, swiglu_reference(x, weight, up, bias, up_bias), off)


@pytest.mark.parametrize("outputs", [300, 17_000], ids=["cuBLAS", "fused"])
def test_replays_from_a_cuda_graph(outputs: int, cuda: str) -> None:
    x, weight, bias = inputs(cuda, torch.float16, 128, outputs, 512)
    kernels.linear_gelu(x, weight, bias)
    kernels.swiglu(x, weight, weight, bias, bias)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = kernels.linear_gelu(x, weight, bias)
        product = kernels.swiglu(x, weight, weight, bias, bias)
    x.copy_(torch.randn_like(x))
    graph.replay()
    assert_close(out, gelu_reference(x, weight, bias), allowance(x, weight, bias, torch.float16))
    off = swiglu_allowance(x, weight, weight, bias, bias)
    assert_close(product, swiglu_reference(x, weight, weight, bias, bias), off)


REFUSED: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "linear_gelu: x must have at least one dimension (..., K), got a scalar": lambda x, w, b: (x[0, 0], w, b),
    "linear_gelu: x must be float16, bfloat16 or float32, got int64": lambda x, w, b: (x.long(), w, b),
    "linear_gelu: weight must have 2 dimensions (N, K), got shape [1, 5, 8]": lambda x, w, b: (x, w[None], b),
    "linear_gelu: weight must have shape [5, 7] (N, K), got [5, 8]": lambda x, w, b: (x[:, :7], w, b),
    "linear_gelu: x and weight differ in dtype: float16 against float32": lambda x, w, b: (x, w.float(), b),
    "linear_gelu: the last dimension of weight must be contiguous (stride 1), got strides [1, 5] "
    "for shape [5, 8]": lambda x, w, b: (x, w.t().contiguous().t(), b),
    "linear_gelu: bias must have shape [5] (N), got [4]": lambda x, w, b: (x, w, b[:4]),
    "linear_gelu: K must be at least 1, got x of shape [3, 0]": lambda x, w, b: (x[:, :0], w[:, :0], b),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_errors_state_what_was_passed_and_what_is_expected(sentence: str, device: str) -> None:
    x, weight, bias = inputs(device, torch.float16, 3, 5, 8)
    with pytest.raises(RuntimeError) as refusal:
        kernels.linear_gelu(*REFUSED[sentence](x, weight, bias))
    assert str(refusal.value).splitlines()[0] == sentence


def test_says_which_layer_it_is_about(device: str) -> None:
    x, weight, bias = inputs(device, torch.float16, 3, 5, 8)
    down = torch.zeros(4, 5, dtype=torch.float16, device=device)
    with pytest.raises(RuntimeError, match=r"linear_silu: bias must have shape \[5\] \(N\), got \[4\]"):
        kernels.linear_silu(x, weight, bias[:4])
    for layers, sentence in (
        ((weight[:, :7], bias, down), r"up_weight must have shape \[5, 8\] \(N, K\), got \[5, 7\]"),
        ((weight, bias[:4], down), r"up_bias must have shape \[5\] \(N\), got \[4\]"),
        ((weight[:0], bias[:0], down), r"up_weight must have at least one row, got shape \[0, 8\]"),
        ((weight, bias, down[:, :4]), r"down_weight must have shape \[4, 5\] \(N, K\), got \[4, 4\]"),
        ((weight, bias, down.float()), "x and down_weight differ in dtype: float16 against float32"),
        ((weight, bias, down, bias), r"down_bias must have shape \[4\] \(N\), got \[5\]"),
    ):
        with pytest.raises(RuntimeError, match=f"ffn_gelu: {sentence}"):
            kernels.ffn_gelu(x, *layers)


def test_swiglu_requires_weights_of_one_shape(device: str) -> None:
    x, weight, _ = inputs(device, torch.float16, 3, 5, 8)
    with pytest.raises(RuntimeError, match=r"swiglu: gate_weight and up_weight differ in shape: \[5, 8\] against \[4,"):
        kernels.swiglu(x, weight, weight[:4])


def test_says_which_approximations_there_are(device: str) -> None:
    x, weight, _ = inputs(device, torch.float16, 3, 5, 8)
    with pytest.raises(ValueError, match="linear_gelu: approximate must be 'none' or 'tanh', got 'erf'"):
        kernels.linear_gelu(x, weight, approximate="erf")


@pytest.mark.parametrize("rows", [1, 20])
def test_are_well_behaved_operators(rows: int, device: str) -> None:
    x, weight, bias = inputs(device, torch.float16, rows, 24, 40)
    for each in (x, x[0], x.view(1, rows, 40)):
        for shift in (None, bias):
            for activation in range(4):
                torch.library.opcheck(torch.ops.warpwatch.linear_activation.default, (each, weight, shift, activation))
            torch.library.opcheck(torch.ops.warpwatch.swiglu.default, (each, weight, weight, shift, shift))
            down = torch.ones(7, 24, dtype=torch.float16, device=device)
            torch.library.opcheck(torch.ops.warpwatch.ffn_gelu.default, (each, weight, shift, down, None, 1))


def test_a_weight_with_a_gradient_gets_none_from_here(device: str) -> None:
    x, weight, bias = inputs(device, torch.float32, 3, 5, 8)
    out = kernels.linear_gelu(x, weight.requires_grad_(), bias)
    assert not (out.requires_grad and "MmBackward" in str(out.grad_fn))


def test_compile_without_graph_breaks(device: str) -> None:
    x, weight, bias = inputs(device, torch.float16, 6, 16, 16)

    @torch.compile(fullgraph=True)
    def layers(x: torch.Tensor) -> torch.Tensor:
        x = kernels.linear_gelu(x, weight, bias) + kernels.linear_silu(x, weight)
        return kernels.ffn_gelu(kernels.swiglu(x, weight, weight, bias, bias), weight, None, weight, bias)

    expected = kernels.linear_gelu(x, weight, bias) + kernels.linear_silu(x, weight)
    expected = kernels.ffn_gelu(kernels.swiglu(expected, weight, weight, bias, bias), weight, None, weight, bias)
    assert torch.equal(layers(x), expected)
