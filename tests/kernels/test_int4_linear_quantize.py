"""How a weight becomes 4-bit: each goes to the nearest value that four bits and its group's scale can say."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_suite.benchmarks.int4_linear import dequantised
from warpwatch import kernels

from .test_int4_linear import rows_of

DTYPES = [torch.float16, torch.bfloat16, torch.float32]


@st.composite
def weights(draw: st.DrawFn) -> tuple[torch.Tensor, int]:
    """Matrices of any magnitude the dtype has, some groups of it all zeros or all but one."""
    dtype = draw(st.sampled_from(DTYPES))
    group_size = draw(st.sampled_from([64, 128]))
    rows, groups = draw(st.integers(0, 5)), draw(st.integers(1, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    smallest, largest = (-8, 4) if dtype == torch.float16 else (-40, 37)
    values = torch.rand(rows, groups, group_size, generator=generator) * 2 - 1
    values *= 10.0 ** draw(st.integers(smallest, largest))
    kind = torch.randint(0, 4, (rows, groups, 1), generator=generator)
    outlier = torch.arange(group_size) == 5
    values = torch.where(kind == 0, 0.0, torch.where((kind == 1) & ~outlier, values / 100, values))
    return values.view(rows, groups * group_size).to(dtype), group_size


@settings(deadline=None)
@given(weights())
def test_no_weight_moves_by_more_than_half_a_scale(case: tuple[torch.Tensor, int]) -> None:
    weight, group_size = case
    packed, scales = kernels.quantize_int4(weight, group_size)
    rows, depth = weight.shape
    assert (packed.dtype, packed.shape) == (torch.uint8, (-(-rows // 16), depth // 64, 512))
    assert (scales.dtype, scales.shape) == (weight.dtype, (rows, depth // group_size))
    half_a_scale = scales.double().repeat_interleave(group_size, dim=-1) / 2
    moved = (weight.double() - dequantised(rows_of(packed, len(scales)), scales, group_size)).abs()
    # weight / scale is computed in fp32, and may round to a tie that exact arithmetic would have missed.
    assert bool((moved <= half_a_scale * (1 + 2.0**-20)).all())


@settings(deadline=None)
@given(weights())
def test_with_a_zero_point_no_weight_moves_by_more_than_half_a_scale(case: tuple[torch.Tensor, int]) -> None:
    weight, group_size = case
    packed, scales, zero_points = kernels.quantize_int4_zero_point(weight, group_size)
    rows, depth = weight.shape
    assert (packed.dtype, packed.shape) == (torch.uint8, (-(-rows // 16), depth // 64, 512))
    assert (scales.dtype, scales.shape) == (weight.dtype, (rows, depth // group_size))
    assert (zero_points.dtype, zero_points.shape) == (torch.uint8, scales.shape)
    assert bool((zero_points <= 15).all())
    scale = scales.double().repeat_interleave(group_size, dim=-1)
    moved = (weight.double() - dequantised(rows_of(packed, rows), scales, group_size, zero_points)).abs()
    # A scale rounded down by half an eps leaves 15 of its half eps at the ends; the quotients round in fp32.
    slack = 15 * torch.finfo(weight.dtype).eps / 2 + 2.0**-18
    assert bool((moved <= scale * (0.5 + slack)).all())


def test_a_zero_point_suits_values_of_one_sign() -> None:
    weight = torch.linspace(0, 15, 128).repeat(2, 1)
    packed, scales, zero_points = kernels.quantize_int4_zero_point(weight)
    assert scales.tolist() == [[1.0], [1.0]]
    assert zero_points.tolist() == [[0], [0]]
    assert torch.equal(dequantised(rows_of(packed, 2), scales, 128, zero_points), weight.round().double())
    assert kernels.quantize_int4_zero_point(-weight)[2].tolist() == [[15], [15]]


def test_with_a_zero_point_zero_stays_zero() -> None:
    weight = torch.randn(16, 256)
    weight[:, ::3] = 0
    back = dequantised(*_in_order(*kernels.quantize_int4_zero_point(weight)))
    assert bool((back[:, ::3] == 0).all())
    assert not dequantised(*_in_order(*kernels.quantize_int4_zero_point(torch.zeros(2, 128)))).any()


def _in_order(
    packed: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, int, torch.Tensor]:
    return rows_of(packed, len(scales)), scales, 128, zero_points


@settings(deadline=None)
@given(weights())
def test_quantizing_what_was_quantized_changes_nothing(case: tuple[torch.Tensor, int]) -> None:
    weight, group_size = case
    packed, scales = kernels.quantize_int4(weight.float(), group_size)
    exact = dequantised(rows_of(packed, len(scales)), scales, group_size).float()
    again, _ = kernels.quantize_int4(exact, group_size)
    full = (exact.view(*scales.shape, group_size).abs() / scales.unsqueeze(-1)).amax(dim=-1) >= 6.99
    values = [kernels.unpack_int4(each, len(scales)).view(*scales.shape, group_size) for each in (packed, again)]
    same = (values[0] == values[1]).all(dim=-1)
    assert bool(same[full].all())


def test_low_nibble_is_the_even_k() -> None:
    weight = torch.zeros(1, 128)
    weight[0, :4] = torch.tensor([7.0, -7.0, 3.0, 0.0])
    packed, scales = kernels.quantize_int4(weight)
    assert scales.item() == 1.0
    assert rows_of(packed, len(scales))[0, :3].tolist() == [0x1F, 0x8B, 0x88]


def test_a_group_of_zeros_stays_zero() -> None:
    packed, scales = kernels.quantize_int4(torch.zeros(3, 256, dtype=torch.float16))
    assert bool((kernels.unpack_int4(packed, 3) == 8).all())
    assert bool((scales > 0).all())


@pytest.mark.parametrize(
    ("weight", "group_size", "sentence"),
    [
        (torch.zeros(3, 256), 32, "group_size must be 64 or 128, got 32"),
        (torch.zeros(3, 200), 128, "K a positive multiple of group_size 128, got shape [3, 200]"),
        (torch.zeros(3, 0), 128, "K a positive multiple of group_size 128, got shape [3, 0]"),
        (torch.zeros(256), 128, "weight must be (N, K) with K a positive multiple of group_size 128, got shape [256]"),
        (torch.zeros(3, 256).double(), 128, "weight must be float16, bfloat16 or float32, got torch.float64"),
        (torch.full((3, 256), math.nan), 128, "weight must be finite, got a NaN or an infinity"),
        (torch.full((3, 256), -math.inf), 128, "weight must be finite, got a NaN or an infinity"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_errors_state_what_was_passed_and_what_is_expected(
    weight: torch.Tensor, group_size: int, sentence: str
) -> None:
    with pytest.raises(ValueError, match=r"^quantize_int4: ") as refusal:
        kernels.quantize_int4(weight, group_size)
    assert sentence in str(refusal.value)
    with pytest.raises(ValueError, match=r"^quantize_int4_zero_point: ") as refusal:
        kernels.quantize_int4_zero_point(weight, group_size)
    assert sentence in str(refusal.value)
