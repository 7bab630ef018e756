"""QuantizedLinear and replace_linear_with_quantized: what a model may do with its layers, they stand."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable

import pytest
import torch
from torch import nn

from perf_suite.benchmarks.int4_linear import int4_linear
from perf_suite.benchmarks.int8_linear import int8_linear
from warpwatch import kernels
from warpwatch.kernels.modules import QuantizedLinear, replace_linear_with_quantized

from .test_int4_linear import rows_of

# One rounding of the product, another of the sum with the bias.
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 1e-5}


def dtype_on(device: str) -> torch.dtype:
    return torch.float16 if device == "cuda" else torch.float32


BITS = [4, 8]
TENSORS = {4: ["packed_weight", "scales"], 8: ["quantized_weight", "weight_scales"]}


def layer(
    device: str,
    dtype: torch.dtype,
    *,
    bias: bool = False,
    bits: int = 4,
    group_size: int | None = None,
    zero_points: bool = False,
    in_features: int = 256,
) -> QuantizedLinear:
    made = QuantizedLinear(
        in_features, 48, bias, bits=bits, group_size=group_size, zero_points=zero_points, dtype=dtype, device=device
    )
    weight = torch.randn(48, in_features, dtype=dtype, device=device) / 16
    return made.quantize_from_float(weight, torch.randn(48, dtype=dtype, device=device) if bias else None)


def expected_of(made: QuantizedLinear, x: torch.Tensor, group_size: int = 128) -> torch.Tensor:
    """In float64, from what the layer holds."""
    if made.bits == 8:
        return int8_linear(x, made.quantized_weight, made.weight_scales, made.bias)
    packed = rows_of(made.packed_weight, made.out_features)
    product = int4_linear(x, packed, made.scales, group_size, getattr(made, "zero_points", None))
    return product if made.bias is None else product + made.bias.double()


def assert_near(out: torch.Tensor, expected: torch.Tensor) -> None:
    error = (out.double() - expected.double()).norm() / expected.double().norm()
    assert error < TOLERANCE[out.dtype]


@pytest.mark.parametrize(
    ("bits", "group_size", "zero_points"),
    [(4, 64, False), (4, 128, False), (4, 64, True), (4, None, True), (8, None, False)],
)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_multiplies_with_what_it_holds(
    dtype: torch.dtype, bias: bool, bits: int, group_size: int | None, zero_points: bool, device: str
) -> None:
    made = layer(device, dtype, bias=bias, bits=bits, group_size=group_size, zero_points=zero_points)
    x = torch.randn(2, 3, 256, dtype=dtype, device=device)
    assert_near(made(x), expected_of(made, x, group_size or 128))


# With 8 bits x is rounded too, to 1 in 127.
@pytest.mark.parametrize(("bits", "zero_points", "error"), [(4, False, 2e-3), (4, True, 2e-3), (8, False, 2e-2)])
def test_what_it_multiplies_with_can_be_read(bits: int, zero_points: bool, error: float, device: str) -> None:
    made = layer(device, dtype_on(device), bits=bits, zero_points=zero_points)
    x = torch.randn(3, 256, dtype=dtype_on(device), device=device)
    product = nn.functional.linear(x.double(), made.dequantize().double())
    assert (made(x) - product).norm() < error * product.norm()


def test_eight_bits_take_features_of_any_number(device: str) -> None:
    made = layer(device, dtype_on(device), bits=8, bias=True, in_features=77)
    assert made.dequantize().shape == (48, 77)
    x = torch.randn(3, 77, dtype=dtype_on(device), device=device)
    assert_near(made(x), expected_of(made, x))


def test_each_weight_moves_by_half_a_scale_at_most(device: str) -> None:
    weight = torch.randn(48, 256, device=device)
    made = QuantizedLinear(256, 48, dtype=torch.float32, device=device).quantize_from_float(weight)
    moved = (made.dequantize() - weight).abs().view(48, 2, 128)
    assert bool((moved <= 0.5001 * made.scales.unsqueeze(-1)).all())


def test_zero_points_suit_weights_that_do_not_lie_evenly_about_zero(device: str) -> None:
    weight = torch.rand(48, 256, device=device)
    moved = []
    for zero_points in (False, True):
        made = QuantizedLinear(256, 48, zero_points=zero_points, dtype=torch.float32, device=device)
        moved.append((made.quantize_from_float(weight).dequantize() - weight).norm().item())
    assert moved[1] < 0.6 * moved[0]


def test_zero_points_are_saved_and_required() -> None:
    made = layer("cpu", torch.float16, zero_points=True)
    assert sorted(made.state_dict()) == ["packed_weight", "scales", "zero_points"]
    with pytest.raises(RuntimeError, match="zero_points"):
        QuantizedLinear(256, 48).load_state_dict(made.state_dict())


def test_rounds_against_the_scales_that_the_kernel_reads(device: str) -> None:
    weight = torch.randn(48, 256, device=device)  # float32, into a float16 layer
    made = QuantizedLinear(256, 48, device=device).quantize_from_float(weight)
    packed, scales = kernels.quantize_int4(weight.half())
    assert torch.equal(made.packed_weight, packed)
    assert torch.equal(made.scales, scales)


@pytest.mark.parametrize("bits", BITS)
def test_comes_back_from_a_file(bits: int, device: str) -> None:
    made = layer(device, dtype_on(device), bits=bits, bias=True)
    file = io.BytesIO()
    torch.save(made.state_dict(), file)
    file.seek(0)
    again = QuantizedLinear(256, 48, True, bits=bits, dtype=dtype_on(device), device=device)
    again.load_state_dict(torch.load(file))
    x = torch.randn(3, 256, dtype=dtype_on(device), device=device)
    assert torch.equal(again(x), made(x))
    assert sorted(made.state_dict()) == ["bias", *TENSORS[bits]]


def test_a_file_of_another_group_size_is_refused() -> None:
    with pytest.raises(RuntimeError, match="size mismatch for scales"):
        QuantizedLinear(256, 48, group_size=64).load_state_dict(layer("cpu", torch.float16).state_dict())


def test_a_copy_stands_alone(device: str) -> None:
    made = layer(device, dtype_on(device))
    twin = copy.deepcopy(made)
    x = torch.randn(3, 256, dtype=dtype_on(device), device=device)
    expected = made(x).clone()
    made.quantize_from_float(torch.zeros(48, 256))
    assert torch.equal(twin(x), expected)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_cast_leaves_the_integers(dtype: torch.dtype, bits: int, device: str) -> None:
    made = layer(device, torch.float32, bits=bits, bias=True)
    before = {name: tensor.clone() for name, tensor in made.named_buffers()}
    made.to(dtype)
    integers, scales = TENSORS[bits]
    assert torch.equal(made.get_buffer(integers), before[integers])
    assert made.bias.dtype == made.dtype == dtype
    # One scale a channel stays in float32, for that is how the kernel takes it.
    assert torch.equal(made.get_buffer(scales), before[scales].to(dtype if bits == 4 else torch.float32))
    x = torch.randn(3, 256, dtype=dtype, device=device)
    assert_near(made(x), expected_of(made, x))


def test_eight_bits_without_a_bias_know_of_a_cast() -> None:
    made = layer("cpu", torch.float16, bits=8).float()
    weight = torch.randn(48, 256) * 1e6  # infinite in float16
    assert bool(made.quantize_from_float(weight).weight_scales.isfinite().all())


def test_a_cast_that_loses_the_scales_is_refused() -> None:
    made = QuantizedLinear(128, 4, dtype=torch.float32).quantize_from_float(torch.full((4, 128), 7e-9))
    with pytest.raises(ValueError, match=r"torch.float16 does not hold the scales, which lie between 1e-09 and 1e-09"):
        made.half()


@pytest.mark.parametrize("bits", BITS)
def test_moves_between_devices(bits: int, cuda: str) -> None:
    made = layer("cpu", torch.float16, bits=bits, bias=True)
    x = torch.randn(3, 256, dtype=torch.float16)
    expected = made(x)
    assert_near(made.to(cuda)(x.to(cuda)).cpu(), expected)
    assert torch.equal(made.cpu()(x), expected)


@pytest.mark.parametrize("bits", BITS)
def test_compiles_without_graph_breaks(bits: int, device: str) -> None:
    made = layer(device, dtype_on(device), bits=bits, bias=True)
    x = torch.randn(3, 256, dtype=dtype_on(device), device=device)
    assert_near(torch.compile(made, fullgraph=True)(x), made(x))


@pytest.mark.parametrize("bits", BITS)
def test_replays_from_a_cuda_graph(bits: int, cuda: str) -> None:
    made = layer(cuda, torch.float16, bits=bits, bias=True)
    x = torch.randn(3, 256, dtype=torch.float16, device=cuda)
    made(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = made(x)
    x.copy_(torch.randn_like(x))
    graph.replay()
    assert torch.equal(out, made(x))


def test_backward_is_refused_with_a_sentence(device: str) -> None:
    x = torch.randn(3, 256, dtype=dtype_on(device), device=device, requires_grad=True)
    out = layer(device, dtype_on(device))(x)
    with pytest.raises(RuntimeError, match="QuantizedLinear: its kernel has no gradient; quantize after training"):
        out.sum().backward()


REFUSED: dict[str, Callable[[], object]] = {
    "QuantizedLinear: 8 bits have one scale for each output, and no group_size, got 128": (
        lambda: QuantizedLinear(128, 8, bits=8, group_size=128)
    ),
    "QuantizedLinear: 8 bits are symmetric, and have no zero points": (
        lambda: QuantizedLinear(128, 8, bits=8, zero_points=True)
    ),
    "QuantizedLinear: in_features must be positive, got 0": lambda: QuantizedLinear(0, 8, bits=8),
    "QuantizedLinear: bits must be 4 or 8, got 3": lambda: QuantizedLinear(128, 8, bits=3),
    "QuantizedLinear: group_size must be 64 or 128, got 32": lambda: QuantizedLinear(128, 8, group_size=32),
    "QuantizedLinear: in_features must be a positive multiple of group_size 128, got 192": (
        lambda: QuantizedLinear(192, 8)
    ),
    "QuantizedLinear: dtype must be float16, bfloat16 or float32, got torch.float64": (
        lambda: QuantizedLinear(128, 8, dtype=torch.float64)
    ),
    "QuantizedLinear: weight must have shape [8, 128] (out_features, in_features), got [128, 8]": (
        lambda: QuantizedLinear(128, 8).quantize_from_float(torch.zeros(128, 8))
    ),
    "QuantizedLinear: the layer has a bias, the weight came without one": (
        lambda: QuantizedLinear(128, 8, True).quantize_from_float(torch.zeros(8, 128))
    ),
    "QuantizedLinear: the layer has no bias, the weight came with one": (
        lambda: QuantizedLinear(128, 8).quantize_from_float(torch.zeros(8, 128), torch.zeros(8))
    ),
    "QuantizedLinear: bias must have shape [8], got [1, 8]": (
        lambda: QuantizedLinear(128, 8, True).quantize_from_float(torch.zeros(8, 128), torch.zeros(1, 8))
    ),
    "quantize_int4: weight must be finite, got a NaN or an infinity": (
        lambda: QuantizedLinear(128, 8).quantize_from_float(torch.full((8, 128), 1e5))  # infinite in float16
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_errors_state_what_was_passed_and_what_is_expected(sentence: str) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011  (the sentence is compared below)
        REFUSED[sentence]()
    assert str(refusal.value) == sentence


def test_a_layer_without_a_weight_is_no_layer_of_zeros() -> None:
    empty = QuantizedLinear(128, 8)
    for use in (lambda: empty(torch.zeros(1, 128, dtype=torch.float16)), empty.dequantize):
        with pytest.raises(RuntimeError, match="no weight yet; call quantize_from_float or load_state_dict first"):
            use()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(128, 256)
        self.gate = self.up  # the same layer in two places
        self.down = nn.Linear(256, 128, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x) * self.gate(x))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.lm_head = nn.Linear(128, 50)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + block(x)
        return self.lm_head(x)


def quantized_names(model: nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if isinstance(module, QuantizedLinear)]


def test_every_linear_layer_but_the_head_is_replaced(device: str) -> None:
    model = Model().to(device, dtype_on(device)).eval()
    floats = copy.deepcopy(model)
    assert replace_linear_with_quantized(model) is model
    assert quantized_names(model) == ["blocks.0.up", "blocks.0.down", "blocks.1.up", "blocks.1.down"]
    assert model.blocks[0].gate is model.blocks[0].up
    for block in floats.blocks:  # the same arithmetic with the weights that the layers stand for
        for name in ("up", "down"):
            weight = getattr(block, name).weight
            made = QuantizedLinear(*weight.t().shape, dtype=weight.dtype, device=device).quantize_from_float(weight)
            weight.data.copy_(made.dequantize())
    x = torch.randn(5, 128, dtype=dtype_on(device), device=device)
    assert_near(model(x), floats(x))


@pytest.mark.parametrize(
    ("skip", "left"),
    [
        ((), ["blocks.0.up", "blocks.0.down", "blocks.1.up", "blocks.1.down", "lm_head"]),
        (("blocks.0",), ["blocks.1.up", "blocks.1.down", "lm_head"]),
        (("down", "lm_head"), ["blocks.0.up", "blocks.1.up"]),
        (("blocks.*.up", "blocks.*.gate", "lm_head"), ["blocks.0.down", "blocks.1.down"]),
        ("blocks", ["lm_head"]),
    ],
)
def test_what_is_named_is_left_alone(skip: tuple[str, ...] | str, left: list[str]) -> None:
    assert quantized_names(replace_linear_with_quantized(Model(), 4, skip=skip)) == left


def test_a_name_that_matches_nothing_is_reported() -> None:
    with pytest.raises(ValueError, match="skip names 'dwon', and the model has no such module"):
        replace_linear_with_quantized(Model(), skip=("dwon",))


def test_a_layer_that_cannot_be_quantized_is_named_and_nothing_is_changed() -> None:
    model = Model()
    model.blocks[1].down = nn.Linear(200, 128)
    with pytest.raises(
        ValueError, match=r"blocks.1.down \[128, 200\] cannot be quantized .*multiple of group_size 128"
    ):
        replace_linear_with_quantized(model)
    assert quantized_names(model) == []


def test_every_layer_may_get_zero_points() -> None:
    model = replace_linear_with_quantized(Model(), group_size=64, zero_points=True)
    assert model.blocks[1].down.zero_points.shape == (128, 4)


def test_a_linear_layer_by_itself_comes_back_as_another() -> None:
    linear = nn.Linear(128, 8)
    made = replace_linear_with_quantized(linear)
    assert isinstance(made, QuantizedLinear)
    assert torch.equal(made.bias, linear.bias)


def test_layers_whose_weights_are_read_by_others_stay() -> None:
    attention = nn.MultiheadAttention(128, 4)
    assert quantized_names(replace_linear_with_quantized(attention)) == []


@pytest.mark.parametrize("bits", BITS)
def test_a_quantized_model_comes_back_from_a_file(bits: int) -> None:
    model = replace_linear_with_quantized(Model(), bits)
    again = replace_linear_with_quantized(Model(), bits)
    again.load_state_dict(model.state_dict())
    x = torch.randn(5, 128)
    assert torch.equal(again(x), model(x))
