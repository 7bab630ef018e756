"""int8_linear and its quantizers as operators: what they refuse and in which words, opcheck, torch.compile."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from warpwatch import kernels

from .quantized_layers import Operands, refusal, small_operands

REFUSED: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], Operands]] = {
    "int8_linear: x must have at least one dimension (..., K), got a scalar": lambda x, w, s, b: (x[0, 0], w, s, b),
    "int8_linear: x must be float16, bfloat16 or float32, got float64": lambda x, w, s, b: (x.double(), w, s, b),
    "int8_linear: the last dimension of x must be contiguous (stride 1), got strides [1, 3] for shape [3, 200]": (
        lambda x, w, s, b: (x.t().contiguous().t(), w, s, b)
    ),
    "int8_linear: K must be from 1 to 131072, so that sums of 8-bit products fit 32 bits; got x of shape [3, 0]": (
        lambda x, w, s, b: (x[:, :0], w, s, b)
    ),
    "int8_linear: weight must have 2 dimensions (N, K rounded up to a multiple of 16), got shape [1, 5, 208]": (
        lambda x, w, s, b: (x, w[None], s, b)
    ),
    "int8_linear: weight must be int8, got uint8": lambda x, w, s, b: (x, w.to(torch.uint8), s, b),
    "int8_linear: weight must have shape [5, 208] (N, K rounded up to a multiple of 16), got [5, 200]": (
        lambda x, w, s, b: (x, w[:, :200], s, b)
    ),
    "int8_linear: weight must be contiguous, got strides [416, 1] for shape [5, 208]": (
        lambda x, w, s, b: (x, w.repeat(1, 2)[:, :208], s, b)
    ),
    "int8_linear: weight_scales must have shape [5] (N), got [4]": lambda x, w, s, b: (x, w, s[:4], b),
    "int8_linear: weight_scales must be float32, got float16": lambda x, w, s, b: (x, w, s.half(), b),
    "int8_linear: weight_scales must be contiguous, got strides [2] for shape [5]": (
        lambda x, w, s, b: (x, w, s.repeat_interleave(2)[::2], b)
    ),
    "int8_linear: bias must have shape [5] (N), got [1, 5]": lambda x, w, s, b: (x, w, s, b[None]),
    "int8_linear: x and bias differ in dtype: float16 against float32": lambda x, w, s, b: (x, w, s, b.float()),
    "int8_linear: bias must be contiguous, got strides [0] for shape [5]": (
        lambda x, w, s, b: (x, w, s, b[:1].expand(5))
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_errors_state_what_was_passed_and_what_is_expected(sentence: str, device: str) -> None:
    assert refusal(kernels.int8_linear, *REFUSED[sentence](*small_operands(device))) == sentence


def test_says_what_cannot_be_quantized(device: str) -> None:
    x = torch.zeros(3, 8, device=device)
    refuse = kernels.quantize_int8_per_token
    assert refusal(refuse, x.long()) == ("quantize_int8_per_token: x must be float16, bfloat16 or float32, got int64")
    assert refusal(refuse, x[:, ::2]) == (
        "quantize_int8_per_token: the last dimension of x must be contiguous (stride 1), "
        "got strides [8, 2] for shape [3, 4]"
    )


def test_says_which_tensor_is_on_which_device(cuda: str) -> None:
    x, weight, scales, bias = small_operands(cuda)
    expected = "int8_linear: x and weight must be on one device: x is on cuda:0, weight on cpu"
    assert refusal(kernels.int8_linear, x, weight.cpu(), scales, bias) == expected
    expected = "int8_linear: x and bias must be on one device: x is on cuda:0, bias on cpu"
    assert refusal(kernels.int8_linear, x, weight, scales, bias.cpu()) == expected


def test_says_that_the_weight_must_be_aligned_on_the_gpu(cuda: str) -> None:
    x, weight, scales, bias = small_operands(cuda)
    moved = torch.cat((weight.flatten()[:8], weight.flatten()))[8:].view(weight.shape)
    assert refusal(kernels.int8_linear, x, moved, scales, bias) == (
        "int8_linear: weight must start on a 16-byte boundary, for it is read 16 bytes at a time; "
        "it starts 8 bytes past one; pass weight.clone()"
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_a_weight_moves_by_half_a_scale_at_most(dtype: torch.dtype, device: str) -> None:
    weight = (torch.randn(40, 100, device=device) * 10 ** torch.randn(40, 1, device=device)).to(dtype)
    weight[3] = 0
    values, scales = kernels.quantize_int8_weight(weight)
    assert (values.shape, values.dtype, scales.dtype) == ((40, 112), torch.int8, torch.float32)
    assert not values[:, 100:].any()
    moved = (values[:, :100].double() * scales.double().unsqueeze(-1) - weight.double()).abs()
    assert bool((moved <= 0.50001 * scales.double().unsqueeze(-1)).all())
    assert values[:3].abs().amax(dim=-1).tolist() == [127, 127, 127]


@pytest.mark.parametrize("value", [torch.finfo(torch.float32).max, 2.0**-149], ids=["largest", "smallest"])
def test_a_weight_at_the_ends_of_float32(value: float) -> None:
    values, scales = kernels.quantize_int8_weight(torch.full((1, 16), value))
    moved = (values.double() * scales.double() - value).abs().max().item()
    assert moved <= max(1e-6 * value, scales.item() / 2)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (torch.zeros(3), r"weight must be \(N, K\) in float16, bfloat16 or float32 with K at least 1, got shape \[3\]"),
        (torch.zeros(3, 0), r"got shape \[3, 0\]"),
        (torch.zeros(3, 4, dtype=torch.int64), "in torch.int64"),
        (torch.tensor([[1.0, torch.nan]]), "weight must be finite, got a NaN or an infinity"),
    ],
    ids=["one dimension", "no K", "integers", "NaN"],
)
def test_says_which_weights_it_quantizes(weight: torch.Tensor, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kernels.quantize_int8_weight(weight)


@pytest.mark.parametrize("rows", [1, 64])
def test_is_a_well_behaved_operator(rows: int, device: str) -> None:
    _, weight, scales, bias = small_operands(device)
    x = torch.randn(rows, 200, device=device).half()
    for each in (x, x[0], x.view(1, rows, 200), torch.cat((x, x), dim=1)[:, :200]):
        for shift in (None, bias):
            torch.library.opcheck(
                torch.ops.warpwatch.int8_linear.default, (each, weight, scales, shift), raise_exception=True
            )
        torch.library.opcheck(torch.ops.warpwatch.quantize_int8_per_token.default, (each,), raise_exception=True)


def test_compiles_without_graph_breaks(device: str) -> None:
    x, weight, scales, bias = small_operands(device)

    @torch.compile(fullgraph=True)
    def doubled(x: torch.Tensor) -> torch.Tensor:
        values, x_scales = kernels.quantize_int8_per_token(x)
        return kernels.int8_linear(x, weight, scales, bias) * 2 + x_scales.sum() + values.sum()

    values, x_scales = kernels.quantize_int8_per_token(x)
    expected = kernels.int8_linear(x, weight, scales, bias) * 2 + x_scales.sum() + values.sum()
    torch.testing.assert_close(doubled(x), expected)


def test_leaves_its_input_alone(device: str) -> None:
    given = small_operands(device)
    before = [tensor.clone() for tensor in given]
    kernels.int8_linear(*given)
    assert all(torch.equal(now, then) for now, then in zip(given, before, strict=True))
