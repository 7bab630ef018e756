"""Attention where scores are so large that fp32 rounds them by more than they differ, against float64.

The queries and keys are chosen so that every score is exact in fp32: what is left to go wrong is the softmax.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch

from perf_suite.benchmarks.decode_attention import decode_attention as decode_reference
from perf_suite.benchmarks.flash_attention import flash_attention as reference
from warpwatch import kernels

from .bfloat16 import skip_without_bfloat16
from .test_flash_attention import TOLERANCE
from .test_flash_attention_backward import assert_close
from .test_int8_kv import quantized
from .test_paged_decode_attention import paged

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
DTYPES = [torch.float16, torch.bfloat16, torch.float32]
HALF = [torch.float16, torch.bfloat16]
# The products of the first four with scale * log2(e) round by -30 to 32 powers of two.
SIZES = [(54656.0, None), (55072.0, None), (19296.0, 1.0), (19536.0, 1.0), (65504.0, 4.0), (3e7, 1.0), (1e18, None)]
KEYS = [2, 70, 333]


def equal_scores(
    device: str, dtype: torch.dtype, size: float, keys: int, *, head_dim: int = 64, sign: int = 1
) -> Tensors:
    """Every score is sign * size^2, so the answer is the mean of the values."""
    skip_without_bfloat16(device, dtype)
    if size > torch.finfo(dtype).max:
        pytest.skip(f"{dtype} does not hold {size}")
    q = torch.zeros(1, 2, 5, head_dim, dtype=dtype, device=device)
    k = torch.zeros(1, 1, keys, head_dim, dtype=dtype, device=device)
    q[..., 0], k[..., 0] = size, sign * size
    return q, k, torch.randn(k.shape, device=device).to(dtype)


def near_scores(device: str, dtype: torch.dtype, keys: int, offset: float, *, head_dim: int = 64) -> Tensors:
    """Scores are offset * 2^12 plus a small number of every key's own, all exact."""
    skip_without_bfloat16(device, dtype)
    q = torch.zeros(1, 2, 5, head_dim, dtype=dtype, device=device)
    k = torch.zeros(1, 1, keys, head_dim, dtype=dtype, device=device)
    q[..., 0], k[..., 0] = 4096.0, offset
    q[..., 1], k[..., 1] = 1.0, (torch.randint(-12, 13, (keys,), device=device) * 2).to(dtype)
    return q, k, torch.randn(k.shape, device=device).to(dtype)


def assert_agrees(out: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=TOLERANCE[out.dtype])


def _varlen(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None) -> torch.Tensor:
    ends = [torch.tensor([0, x.shape[2]], dtype=torch.int32, device=q.device) for x in (q, k)]
    packed = [x[0].transpose(0, 1).contiguous() for x in (q, k, v)]
    out = kernels.flash_attention_varlen(*packed, *ends, q.shape[2], k.shape[2], scale=scale)
    return out.transpose(0, 1)[None]


def _biased(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None) -> torch.Tensor:
    bias = q.new_zeros(1, 1, q.shape[2], k.shape[2])
    return kernels.flash_attention(q, k, v, bias=bias, scale=scale)


ATTENTION: dict[str, Callable[..., torch.Tensor]] = {
    "flash_attention": lambda q, k, v, scale: kernels.flash_attention(q, k, v, scale=scale),
    "with a bias": _biased,
    "varlen": _varlen,
    "naive_attention": lambda q, k, v, scale: kernels.naive_attention(q, k, v, scale=scale),
    "tiled_attention": lambda q, k, v, scale: kernels.tiled_attention(q, k, v, scale=scale),
}
TWINS = ["flash_attention", "naive_attention", "tiled_attention", "decode_attention"]
ONE_QUERY = {"naive_attention", "decode_attention"}  # a program per query, and few queries


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize(("size", "scale"), SIZES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("attention", ATTENTION.values(), ids=ATTENTION)
@pytest.mark.parametrize("sign", [1, -1])
def test_equal_scores_give_the_mean_of_the_values(
    sign: int,
    attention: Callable[..., torch.Tensor],
    dtype: torch.dtype,
    size: float,
    scale: float | None,
    keys: int,
    device: str,
) -> None:
    q, k, v = equal_scores(device, dtype, size, keys, sign=sign)
    expected = v.double().mean(dim=2, keepdim=True).expand(q.shape)
    assert_agrees(attention(q, k, v, scale), expected)


# Around 2^24 powers of two the arithmetic changes; the running maximum is below it in some tiles and above in others.
NEAR = [(offset, scale) for offset in (4096.0, -4096.0) for scale in (math.log(2.0), 0.5, 0.6)] + [(512.0, 128**-0.5)]


@pytest.mark.parametrize(("keys", "head_dim"), [(2, 64), (70, 96), (333, 64), (333, 128), (333, 256)])
@pytest.mark.parametrize(("offset", "scale"), NEAR)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("attention", [x for x in ATTENTION if x != "with a bias"])
def test_small_differences_of_large_scores_count(
    attention: str, dtype: torch.dtype, offset: float, scale: float, keys: int, head_dim: int, device: str
) -> None:
    q, k, v = near_scores(device, dtype, keys, offset, head_dim=head_dim)
    assert_agrees(ATTENTION[attention](q, k, v, scale), reference(q, k, v, scale=scale))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("attention", [x for x in ATTENTION if x != "with a bias"])
def test_a_maximum_that_rises_from_very_low_to_very_high(
    attention: str, dtype: torch.dtype, descending: bool, device: str
) -> None:
    q, k, v = equal_scores(device, dtype, 49152.0, 500)
    steps = torch.linspace(-49152.0, 49152.0, 500, device=device).sort(descending=descending).values
    k[..., 0] = steps.to(dtype)
    for last in (1, 130, 250, 251, 300, 500):
        k_seen, v_seen = k[:, :, :last], v[:, :, :last]
        assert_agrees(ATTENTION[attention](q, k_seen, v_seen, 1.0), reference(q, k_seen, v_seen, scale=1.0))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("largest", [1e4, 6e4, 1e5, 1e15])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_random_large_queries_and_keys(dtype: torch.dtype, largest: float, causal: bool, device: str) -> None:
    if largest > torch.finfo(dtype).max:
        pytest.skip(f"{dtype} does not hold {largest}")
    skip_without_bfloat16(device, dtype)
    q, k, v = (torch.randn(2, 2, 150, 64, device=device) for _ in range(3))
    q, k = (x / x.abs().amax() * largest for x in (q, k))
    q, k, v = (x.to(dtype) for x in (q, k, v))
    expected = reference(q, k, v, causal)
    assert_agrees(kernels.flash_attention(q, k, v, causal=causal), expected)
    for name in ("naive_attention", "tiled_attention"):
        assert_agrees(getattr(kernels, name)(q, k, v, causal=causal), expected)


@pytest.mark.parametrize("hidden", [-math.inf, -3e38])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_a_mask_over_large_scores(dtype: torch.dtype, hidden: float, device: str) -> None:
    q, k, v = equal_scores(device, dtype, 1e5, 200)
    bias = torch.zeros(1, 1, 5, 200, dtype=dtype, device=device)
    bias[..., ::3] = hidden
    bias[:, :, 2] = hidden  # sees nothing: zeros under -inf, as ever
    seen = [i for i in range(5) if i != 2]
    out = kernels.flash_attention(q, k, v, bias=bias)
    mean = v[:, :, [i for i in range(200) if i % 3]].double().mean(dim=2, keepdim=True)
    assert_agrees(out[:, :, seen], mean.expand(1, 2, 4, 64))
    if hidden == -math.inf:
        assert torch.equal(out[:, :, 2], torch.zeros_like(out[:, :, 2]))


@pytest.mark.parametrize(("size", "scale"), SIZES[:5])
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_the_log_sum_exp_of_equal_large_scores(
    dtype: torch.dtype, size: float, scale: float | None, device: str
) -> None:
    q, k, v = equal_scores(device, dtype, size, 333)
    _, lse = kernels.flash_attention_with_lse(q, k, v, scale=scale)
    exact = float(q[0, 0, 0, 0].double()) ** 2 * (0.125 if scale is None else scale) + math.log(333)
    torch.testing.assert_close(lse, torch.full_like(lse, exact), rtol=2e-7, atol=0)


def _flash_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None) -> torch.Tensor:
    return kernels.flash_attention(q, k, v, scale=scale)


DIFFERENTIABLE = {"flash_attention": _flash_attention, "with a bias": _biased, "varlen": _varlen}


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize(("size", "scale"), SIZES[:5])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("attention", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_gradient_of_values_of_equal_scores(
    sign: int,
    attention: Callable[..., torch.Tensor],
    dtype: torch.dtype,
    size: float,
    scale: float | None,
    keys: int,
    device: str,
) -> None:
    q, k, v = equal_scores(device, dtype, size, keys, sign=sign)
    d_out = torch.randn_like(q)
    v.requires_grad_()
    attention(q, k, v, scale).backward(d_out)
    assert v.grad is not None
    assert_agrees(v.grad, d_out.double().sum(dim=(1, 2), keepdim=True).expand(v.shape) / keys)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("keys", "head_dim"), [(2, 64), (70, 96), (333, 64), (333, 128), (333, 256)])
@pytest.mark.parametrize(("offset", "scale"), NEAR)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients_of_nearly_equal_large_scores(
    dtype: torch.dtype, offset: float, scale: float, keys: int, head_dim: int, causal: bool, device: str
) -> None:
    tensors = near_scores(device, dtype, keys, offset, head_dim=head_dim)
    assert_gradients(kernels.flash_attention_backward, tensors, causal=causal, scale=scale)


def assert_gradients(backward: Callable[..., tuple[torch.Tensor, ...]], tensors: Tensors, **options: Any) -> None:
    q, k, v = tensors
    d_out = torch.randn_like(q)
    out, lse = kernels.flash_attention_with_lse(q, k, v, **options)
    found = backward(d_out, q, k, v, out, lse, **options)
    # From the same rounded output: what its rounding does to delta has nothing to do with large scores.
    q64, k64, v64 = (x.double().repeat_interleave(2 // x.shape[1], dim=1) for x in tensors)
    scores = options["scale"] * q64 @ k64.mT
    seen = torch.ones_like(scores, dtype=torch.bool).tril(k.shape[2] - q.shape[2] if options["causal"] else k.shape[2])
    weights = torch.softmax(scores.masked_fill(~seen, torch.finfo(scores.dtype).min), dim=-1).masked_fill(~seen, 0.0)
    delta = (d_out.double() * out.double()).sum(-1, keepdim=True)
    d_scores = (weights * (d_out.double() @ v64.mT - delta)) * options["scale"]
    expected = (
        d_scores @ k64,
        (d_scores.mT @ q64).sum(1, keepdim=True),
        (weights.mT @ d_out.double()).sum(1, keepdim=True),
    )
    # dq is a sum of ds k, dk of ds q; their rounding grows with those: up to 2^12 in the column of the large number.
    sizes = [x.abs().amax(dim=(0, 1, 2)).clamp(min=1.0) for x in (k64, q64)]
    for gradients in (found, expected):
        for gradient, size in zip(gradients, sizes, strict=False):
            gradient /= size.to(gradient.dtype)
    assert_close(found, expected, q.dtype)


def test_the_log_sum_exp_keeps_the_sum_next_to_a_large_score(device: str) -> None:
    q, k, v = near_scores(device, torch.float16, 333, 4096.0)
    scores = 0.5 * (q.double() @ k.double().transpose(-2, -1))
    for causal in (False, True):
        seen = torch.ones_like(scores, dtype=torch.bool).tril(333 - 5 if causal else 333)
        _, lse = kernels.flash_attention_with_lse(q, k, v, scale=0.5, causal=causal)
        exact = scores.masked_fill(~seen, -torch.inf).logsumexp(dim=-1)
        torch.testing.assert_close(lse, exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("capacity", [2, 70, 4000])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("size", "scale"), SIZES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_decode_of_equal_scores(
    dtype: torch.dtype, size: float, scale: float | None, batch: int, capacity: int, device: str
) -> None:
    q, k, v = (x.repeat(batch, 1, 1, 1) for x in equal_scores(device, dtype, size, capacity))
    lengths = torch.randint(5, capacity + 1, (batch,), dtype=torch.int32, device=device) if capacity > 5 else None
    out = kernels.decode_attention(q, k, v, lengths, scale=scale)
    expected = decode_reference(q, k, v, lengths, scale)
    assert_agrees(out, expected)
    if lengths is not None:
        assert_agrees(kernels.paged_decode_attention(q, *paged(k, v, 16), lengths, scale=scale), expected)


@pytest.mark.parametrize("capacity", [70, 4000])
@pytest.mark.parametrize(("offset", "scale"), NEAR)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_decode_of_nearly_equal_large_scores(
    dtype: torch.dtype, offset: float, scale: float, capacity: int, device: str
) -> None:
    q, k, v = near_scores(device, dtype, capacity, offset)
    assert_agrees(kernels.decode_attention(q, k, v, scale=scale), decode_reference(q, k, v, None, scale))


@pytest.mark.parametrize("capacity", [70, 4000])
@pytest.mark.parametrize(("size", "scale"), SIZES)
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_decode_of_equal_scores_from_quantized_caches(
    dtype: torch.dtype, size: float, scale: float | None, capacity: int, device: str
) -> None:
    q, k, v = equal_scores(device, dtype, size, capacity)
    q = q[:, :, :1]
    lengths = torch.tensor([capacity], dtype=torch.int32, device=device)
    codes = quantized(k, v, spare=0)
    values = codes[1].double() * codes[3].double()[..., None]
    out = kernels.int8_decode_attention(q, *codes, lengths, scale=scale)
    assert_agrees(out, values.mean(dim=2, keepdim=True).expand(q.shape))


@pytest.mark.parametrize("keys", [2, 150])
@pytest.mark.parametrize(("size", "scale"), SIZES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("name", TWINS)
def test_triton_twins_of_equal_scores(
    name: str,
    dtype: torch.dtype,
    size: float,
    scale: float | None,
    keys: int,
    device: str,
    twin: Callable[[str], Callable[..., torch.Tensor]],
) -> None:
    _needs_loop_bounds(device)
    q, k, v = equal_scores(device, dtype, size, keys)
    expected = v.double().mean(dim=2, keepdim=True).expand(q.shape)
    if name in ONE_QUERY:
        q, expected = q[:, :, :1], expected[:, :, :1]
    assert_agrees(twin(name)(q, k, v, scale=scale), expected)


@pytest.mark.parametrize(("offset", "scale"), NEAR)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("name", TWINS)
def test_triton_twins_of_nearly_equal_large_scores(
    name: str,
    dtype: torch.dtype,
    offset: float,
    scale: float,
    device: str,
    twin: Callable[[str], Callable[..., torch.Tensor]],
) -> None:
    _needs_loop_bounds(device)
    q, k, v = near_scores(device, dtype, 150, offset)
    q = q[:, :, :1] if name in ONE_QUERY else q
    assert_agrees(twin(name)(q, k, v, scale=scale), reference(q, k, v, scale=scale))


@pytest.mark.parametrize(("keys", "offset"), [(70, 4096.0), (333, -4096.0)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_gradients_of_the_triton_twin(
    dtype: torch.dtype,
    keys: int,
    offset: float,
    device: str,
    twin: Callable[[str], Callable[..., tuple[torch.Tensor, ...]]],
) -> None:
    _needs_loop_bounds(device)
    tensors = near_scores(device, dtype, keys, offset)
    assert_gradients(twin("flash_attention_backward"), tensors, causal=False, scale=0.5)


def _needs_loop_bounds(device: str) -> None:
    if device == "cpu" and numpy.lib.NumpyVersion(numpy.__version__) >= "2.4.0":
        pytest.skip("Triton 3.6's interpreter makes loop bounds in a way that NumPy refuses from 2.4 on")
