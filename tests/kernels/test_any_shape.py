"""Every operator at random shapes: sizes, heads, strides and offsets as hypothesis draws them.

Bounds and inputs are those of each operator's own tests. WARPWATCH_EXAMPLES draws more than a run of the suite does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perf_suite.benchmarks.decode_attention import decode_attention as decode_reference
from perf_suite.benchmarks.flash_attention import flash_attention as attention_reference
from perf_suite.benchmarks.layer_norm import layer_norm as layer_norm_reference
from perf_suite.benchmarks.rms_norm import add_rms_norm as rms_norm_reference
from perf_suite.benchmarks.rope import rope as rope_reference
from warpwatch import kernels

from . import test_int4_linear, test_int8_linear, test_int8_weight_linear
from .bfloat16 import has_bfloat16
from .test_flash_attention import assert_attends, inputs
from .test_linear_activation import LAYERS, allowance, assert_close
from .test_linear_activation import inputs as linear_inputs
from .test_reduce_sum import assert_summed
from .test_rope import assert_turned
from .test_row_norm import assert_normalised

HEAD_DIMS = st.sampled_from([64, 96, 128, 256])
FEW = st.integers(1, 5)
at_any_shape = settings(
    max_examples=int(os.environ.get("WARPWATCH_EXAMPLES", "15")),
    deadline=None,
    derandomize="WARPWATCH_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def dtypes(device: str, *, fp32_on_a_gpu: bool = True) -> st.SearchStrategy[torch.dtype]:
    """Those that an operator takes there."""
    known = [torch.float16]
    if has_bfloat16(device):
        known.append(torch.bfloat16)
    if device == "cpu" or fp32_on_a_gpu:
        known.append(torch.float32)
    return st.sampled_from(known)


def lengths(device: str) -> st.SearchStrategy[int]:
    """Short ones, the neighbours of powers of two, and any up to some thousand on a GPU and three hundred on a CPU."""
    edges = [size + offset for size in (16, 32, 64, 128, 256, 512) for offset in (-1, 0, 1)]
    return st.one_of(st.integers(1, 40), st.sampled_from(edges), st.integers(1, 3000 if device == "cuda" else 300))


def rows_of_x(device: str) -> st.SearchStrategy[int]:
    """Of a linear layer: those of a decode step and of a short prefill."""
    return st.integers(1, 300 if device == "cuda" else 40)


def _transposed(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def _in_wider_rows(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(x, (8, 16), value=torch.nan)[..., 8:-16]


def _off_a_boundary(x: torch.Tensor) -> torch.Tensor:
    return torch.cat((x.new_full((3,), torch.nan), x.flatten()))[3:].view(x.shape)


def _in_odd_rows(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(x, (1, 2), value=torch.nan)[..., 1:-2]


def _one_for_all_sequences(x: torch.Tensor) -> torch.Tensor:
    return x[:1].expand_as(x)


ALIGNED: list[Callable[[torch.Tensor], torch.Tensor]] = [torch.Tensor.clone, _transposed, _in_wider_rows]
FREE = [*ALIGNED, _off_a_boundary, _in_odd_rows, _one_for_all_sequences]


def seeded(data: st.DataObject) -> None:
    torch.manual_seed(data.draw(st.integers(0, 2**32), "seed"))


@at_any_shape
@given(data=st.data())
def test_flash_attention(device: str, data: Any) -> None:
    seeded(data)
    dtype, head_dim = data.draw(dtypes(device)), data.draw(HEAD_DIMS)
    heads_kv, group = data.draw(FEW), data.draw(FEW)
    seq = data.draw(lengths(device)), data.draw(lengths(device))
    batch = data.draw(FEW)
    causal = data.draw(st.booleans())
    window = data.draw(st.none() | lengths(device)) if causal else None
    scale = data.draw(st.none() | st.floats(0.001, 0.3))
    tensors = inputs(device, dtype, seq, head_dim=head_dim, heads=(heads_kv * group, heads_kv), batch=batch)
    q, k, v = (data.draw(st.sampled_from(FREE))(x) for x in tensors)
    out = kernels.flash_attention(q, k, v, causal=causal, window=window, scale=scale)
    largest = (scale or 0.0) * (q.float().norm(dim=-1).max() * k.float().norm(dim=-1).max()).item()
    assert_attends(out, attention_reference(q, k, v, causal, scale, window), largest)


@at_any_shape
@given(data=st.data())
def test_decode_attention_over_rows_and_over_pages(device: str, data: Any) -> None:
    seeded(data)
    dtype, head_dim = data.draw(dtypes(device)), data.draw(HEAD_DIMS)
    heads_kv, group, tokens = data.draw(FEW), data.draw(st.integers(1, 20)), data.draw(st.integers(1, 8))
    batch, capacity = data.draw(st.integers(1, 9)), data.draw(lengths(device))
    tensors = inputs(
        device, dtype, (tokens, capacity), head_dim=head_dim, heads=(heads_kv * group, heads_kv), batch=batch
    )
    q = data.draw(st.sampled_from(FREE))(tensors[0])
    k, v = (data.draw(st.sampled_from(ALIGNED))(x) for x in tensors[1:])
    known = torch.randint(0, capacity + 1, (batch,), dtype=torch.int32, device=device)
    expected = decode_reference(q, k, v, known)
    assert_attends(kernels.decode_attention(q, k, v, known), expected)

    page_size = data.draw(st.sampled_from([16, 32, 64, 128, 256]))
    of_a_sequence = -(-capacity // page_size)
    table = torch.randperm(batch * of_a_sequence, device=device, dtype=torch.int32).view(batch, of_a_sequence)
    k_pages, v_pages = torch.full(
        (2, batch * of_a_sequence, heads_kv, page_size, head_dim), torch.nan, dtype=dtype, device=device
    )
    kernels.paged_kv_append(k, v, k_pages, v_pages, table, torch.full_like(known, capacity))
    assert_attends(kernels.paged_decode_attention(q, k_pages, v_pages, table, known), expected)
    gathered = kernels.paged_kv_gather(k_pages, v_pages, table, torch.full_like(known, capacity), capacity)
    assert torch.equal(gathered[0], k)
    assert torch.equal(gathered[1], v)


@at_any_shape
@given(data=st.data())
def test_int4_weights(device: str, data: Any) -> None:
    seeded(data)
    group_size = data.draw(st.sampled_from([64, 128]))
    rows, outputs, groups = (
        data.draw(rows_of_x(device)),
        data.draw(lengths(device)),
        data.draw(st.integers(1, 40)),
    )
    dtype = data.draw(dtypes(device, fp32_on_a_gpu=False))
    x, packed, scales = test_int4_linear.inputs(device, dtype, rows, outputs, groups * group_size, group_size)
    out = test_int4_linear.int4_linear(x, packed, scales, group_size=group_size)
    is_rounded = test_int4_linear.rounds_weight(rows, outputs, device)
    test_int4_linear.assert_multiplied(out, x, packed, scales, group_size, weight_rounded=is_rounded)


@at_any_shape
@given(data=st.data())
def test_int8_weights(device: str, data: Any) -> None:
    seeded(data)
    rows, outputs, depth = (
        data.draw(rows_of_x(device)),
        data.draw(lengths(device)),
        data.draw(lengths(device)),
    )
    x, *weight = test_int8_linear.inputs(device, data.draw(dtypes(device)), rows, outputs, depth)
    test_int8_linear.assert_multiplied(kernels.int8_linear(x, *weight), x, *weight)
    dtype = data.draw(dtypes(device, fp32_on_a_gpu=False))
    x, *weight = test_int8_weight_linear.inputs(device, dtype, rows, outputs, depth)
    test_int8_weight_linear.assert_multiplied(kernels.int8_weight_linear(x, *weight), x, *weight)


@at_any_shape
@given(data=st.data())
def test_linear_with_an_activation(device: str, data: Any) -> None:
    seeded(data)
    rows, outputs, depth = (
        data.draw(rows_of_x(device)),
        data.draw(lengths(device)),
        data.draw(lengths(device)),
    )
    dtype = data.draw(dtypes(device))
    x, weight, bias = linear_inputs(device, dtype, rows, outputs, depth)
    shift = data.draw(st.sampled_from([bias, None]))
    run, reference = LAYERS[data.draw(st.sampled_from(sorted(LAYERS)))]
    assert_close(run(x, weight, shift), reference(x, weight, shift), allowance(x, weight, shift, dtype))


@at_any_shape
@given(data=st.data())
def test_rope(device: str, data: Any) -> None:
    seeded(data)
    batch, heads, seq, half = data.draw(FEW), data.draw(FEW), data.draw(lengths(device)), data.draw(st.integers(1, 200))
    x = torch.randn(batch, heads, seq, 2 * half, device=device).to(data.draw(dtypes(device)))
    x = data.draw(st.sampled_from(FREE))(x)
    angle = torch.rand(seq, half, device=device) * 6.3
    interleaved = data.draw(st.booleans())
    out = kernels.rope(x, angle.cos(), angle.sin(), interleaved=interleaved)
    assert_turned(out, rope_reference(x, angle.cos(), angle.sin(), interleaved))


@at_any_shape
@given(data=st.data())
def test_norms(device: str, data: Any) -> None:
    seeded(data)
    shape = data.draw(FEW), data.draw(FEW), data.draw(lengths(device)), data.draw(lengths(device))
    dtype = data.draw(dtypes(device))
    x, residual = torch.randn(2, *shape, device=device).to(dtype)
    x, residual = data.draw(st.sampled_from(FREE))(x), data.draw(st.sampled_from(FREE))(residual)
    weight, bias = torch.randn(2, shape[-1], device=device).to(dtype)
    assert_normalised(kernels.layer_norm(x, weight, bias), layer_norm_reference(x, weight, bias))
    out, total = kernels.add_rms_norm(x, residual, weight)
    expected, expected_total = rms_norm_reference(x, residual, weight)
    assert_normalised(out, expected)
    assert torch.equal(total.double(), expected_total)


@at_any_shape
@given(data=st.data())
def test_reduce_sum_and_vector_add(device: str, data: Any) -> None:
    seeded(data)
    shape = data.draw(FEW), data.draw(lengths(device)), data.draw(FEW), data.draw(lengths(device))
    x = torch.randn(shape, device=device).to(data.draw(dtypes(device)))
    x = data.draw(st.sampled_from(FREE))(x)
    dims = data.draw(st.lists(st.integers(0, 3), min_size=1, unique=True).map(tuple))
    assert_summed(kernels.reduce_sum(x, dims), x, dims)
    flat = x.clone(memory_format=torch.contiguous_format).flatten()[data.draw(st.integers(0, min(9, x.numel() - 1))) :]
    other = torch.randn(flat.shape, device=device).to(x.dtype)
    assert torch.equal(kernels.vector_add(flat, other), flat + other)
