"""flash_attention against float64: edges of its tiles, the causal mask, shared key heads, free strides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from perf_suite.benchmarks.flash_attention import flash_attention as reference
from warpwatch import kernels
from warpwatch.kernels.operators.flash_attention import flash_attention_with_lse

from .bfloat16 import skip_without_bfloat16

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
# Queries come in tiles of 64, 128 and 192 on the GPU and 32 on the CPU, keys in tiles of 32, 64 and 128.
EDGES = [(1, 1), (17, 17), (31, 33), (64, 64), (65, 63), (127, 129), (128, 128), (129, 64), (192, 193), (257, 255)]
EDGES += [(1, 1000), (1000, 1000)]
UNEQUAL = [(1, 7), (7, 1), (5, 133), (133, 5), (64, 65), (65, 64), (200, 72), (72, 200)]

# Weights are rounded to the dtype before they meet the values, and the result once more: two roundings of half a unit
# each, relative to the largest value averaged. Values are unit normal, so none is beyond 6; three eps of that bound
# the sum. fp32 adds up some 1000 products in another order than the reference.
TOLERANCE = {torch.float16: 3 * 2.0**-10, torch.bfloat16: 3 * 2.0**-7, torch.float32: 1e-5}

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def inputs(
    device: str,
    dtype: torch.dtype,
    seq: tuple[int, int],
    *,
    head_dim: int = 64,
    heads: tuple[int, int] = (2, 2),
    batch: int = 2,
) -> Tensors:
    skip_without_bfloat16(device, dtype)
    (seq_q, seq_kv), (heads_q, heads_kv) = seq, heads
    q = torch.randn(batch, heads_q, seq_q, head_dim, device=device)
    k, v = torch.randn(2, batch, heads_kv, seq_kv, head_dim, device=device)
    return q.to(dtype), k.to(dtype), v.to(dtype)


def assert_attends(out: torch.Tensor, expected: torch.Tensor, largest_score: float = 0.0) -> None:
    # A score is off by a few eps of fp32 times its size, and a weight, being its exponential, by that factor. For the
    # scores of unit normal inputs TOLERANCE holds that too.
    atol = TOLERANCE[out.dtype] + 8 * 2.0**-23 * largest_score
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seq", EDGES, ids=str)
def test_agrees_with_float64_at_the_edges_of_tiles(
    seq: tuple[int, int], dtype: torch.dtype, head_dim: int, causal: bool, device: str
) -> None:
    q, k, v = inputs(device, dtype, seq, head_dim=head_dim)
    out = kernels.flash_attention(q, k, v, causal=causal)
    assert out.dtype == dtype
    assert out.is_contiguous()
    assert_attends(out, reference(q, k, v, causal))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seq", UNEQUAL, ids=str)
def test_the_last_query_sees_all_keys_whatever_the_lengths(
    seq: tuple[int, int], dtype: torch.dtype, device: str
) -> None:
    q, k, v = inputs(device, dtype, seq)
    assert_attends(kernels.flash_attention(q, k, v, causal=True), reference(q, k, v, causal=True))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (6, 2), (5, 1)], ids=str)
def test_query_heads_share_key_heads(heads: tuple[int, int], causal: bool, device: str) -> None:
    q, k, v = inputs(device, torch.float16, (70, 90), heads=heads, head_dim=128)
    assert_attends(kernels.flash_attention(q, k, v, causal=causal), reference(q, k, v, causal))


@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("heads", [(4, 4), (8, 2), (5, 1)], ids=str)
def test_one_query_of_each_head_sees_all_keys(
    heads: tuple[int, int], dtype: torch.dtype, head_dim: int, device: str
) -> None:
    q, k, v = inputs(device, dtype, (1, 333), heads=heads, head_dim=head_dim)
    q = q.transpose(1, 2).contiguous().transpose(1, 2)
    expected = reference(q, k, v)
    assert_attends(kernels.flash_attention(q, k, v), expected)
    out, lse = kernels.flash_attention_with_lse(q, k, v, causal=True)
    assert_attends(out, expected)
    scores = torch.einsum("bhqd,bhkd->bhqk", q.double(), k.repeat_interleave(heads[0] // heads[1], 1).double())
    expected_lse = torch.logsumexp(scores * head_dim**-0.5, -1)
    torch.testing.assert_close(lse, expected_lse, rtol=0, atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize(("batch", "heads", "seq"), [(1, 5, 4097), (3, 40, 300), (7, 40, 129), (2, 96, 513)])
def test_more_tiles_than_the_gpu_holds_at_once(
    batch: int, heads: int, seq: int, head_dim: int, causal: bool, cuda: str
) -> None:
    q, k, v = inputs(cuda, torch.float16, (seq, seq + 3), heads=(heads, heads), batch=batch, head_dim=head_dim)
    out = kernels.flash_attention(q, k, v, causal=causal)
    for b in range(batch):  # the reference holds all scores
        one = slice(b, b + 1)
        assert_attends(out[one], reference(q[one], k[one], v[one], causal))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("rise", [-4.0, 0.5, 2.0, 6.0])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_largest_score_changes_from_tile_to_tile(
    dtype: torch.dtype, rise: float, head_dim: int, causal: bool, device: str
) -> None:
    q, k, v = inputs(device, dtype, (130, 1000), head_dim=head_dim)
    q[..., 0] = head_dim**0.5
    k[..., 0] = torch.linspace(rise * 1000 / 128, 0, 1000, dtype=dtype, device=device)  # tiles come last to first
    expected = reference(q, k, v, causal)
    out, lse = kernels.flash_attention_with_lse(q, k, v, causal=causal)
    assert_attends(out, expected, 8 * abs(rise) + 5)
    scores = torch.einsum("bhqd,bhkd->bhqk", q.double(), k.double()) * head_dim**-0.5
    if causal:
        scores.masked_fill_(~torch.ones(130, 1000, dtype=torch.bool, device=device).tril(870), -torch.inf)
    torch.testing.assert_close(lse, torch.logsumexp(scores, -1), rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_query_that_sees_no_key_gives_zeros(dtype: torch.dtype, device: str) -> None:
    q, k, v = inputs(device, dtype, (200, 3))
    out = kernels.flash_attention(q, k, v, causal=True)
    assert torch.equal(out[:, :, :197], torch.zeros_like(out[:, :, :197]))
    assert_attends(out, reference(q, k, v, causal=True))
    nothing = kernels.flash_attention(q, k[:, :, :0], v[:, :, :0])
    assert torch.equal(nothing, torch.zeros_like(q))


@pytest.mark.parametrize("shape", [(0, 2, 5, 64), (2, 2, 0, 64)], ids=str)
def test_no_queries_give_an_empty_tensor(shape: tuple[int, ...], device: str) -> None:
    q = torch.empty(shape, dtype=torch.float16, device=device)
    k = torch.empty(shape[0], 2, 7, 64, dtype=torch.float16, device=device)
    assert kernels.flash_attention(q, k, k).shape == shape


@pytest.mark.parametrize("head_dim", [8, 40, 248])
def test_the_cpu_takes_other_head_dims(head_dim: int) -> None:
    q, k, v = inputs("cpu", torch.float32, (35, 70), head_dim=head_dim)
    assert_attends(kernels.flash_attention(q, k, v, causal=True), reference(q, k, v, causal=True))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 4.0])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_takes_a_scale(dtype: torch.dtype, scale: float, device: str) -> None:
    q, k, v = inputs(device, dtype, (33, 130))
    out = kernels.flash_attention(q, k, v, scale=scale)
    assert_attends(out, reference(q, k, v, scale=scale), largest_score=50 * scale)  # |q k| is below 50


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scores_beyond_the_range_of_exp_stay_finite(dtype: torch.dtype, device: str) -> None:
    q, k, v = inputs(device, dtype, (40, 200))
    q, k = q * 40, k * 40  # scores of some thousands: one key has all the weight, and which one may change late
    largest_score = 40 * 40 * 50 / 8
    assert_attends(kernels.flash_attention(q, k, v), reference(q, k, v), largest_score)


STRIDED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "batch, seq, heads, head_dim": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "rows with room between them": lambda x: torch.cat((x, x), dim=-1)[..., : x.shape[-1]],
    "rows at odd addresses": lambda x: torch.cat((x, x[..., :1]), dim=-1)[..., 1:],
    "begins at an odd address": lambda x: torch.cat((x.flatten()[:1], x.flatten()))[1:].view(x.shape),
    "one head seen by all": lambda x: x[:, :1].expand(x.shape),
    "every other position": lambda x: x.repeat_interleave(2, dim=2)[:, :, ::2],
    "rows that overlap": lambda x: x.flatten().as_strided(x.shape, (x.shape[1] * x.shape[2] * 8, x.shape[2] * 8, 8, 1)),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", STRIDED)
def test_strides_other_than_the_last_are_free(layout: str, dtype: torch.dtype, device: str) -> None:
    q, k, v = (STRIDED[layout](x) for x in inputs(device, dtype, (70, 90)))
    out = kernels.flash_attention(q, k, v, causal=True)
    assert (out.transpose(1, 2) if layout == "batch, seq, heads, head_dim" else out).is_contiguous()
    assert_attends(out, reference(q, k, v, causal=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_lies_behind_the_last_key_does_not_matter(dtype: torch.dtype, device: str) -> None:
    q, k, v = inputs(device, dtype, (70, 200))
    k[:, :, 77:], v[:, :, 77:] = torch.nan, torch.nan
    k, v = k[:, :, :77], v[:, :, :77]
    assert_attends(kernels.flash_attention(q, k, v), reference(q, k, v))


def test_the_same_input_gives_the_same_bits(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (300, 300), heads=(4, 2))
    first = kernels.flash_attention(q, k, v, causal=True)
    for _ in range(3):
        assert torch.equal(kernels.flash_attention(q, k, v, causal=True), first)


def test_a_nan_reaches_the_queries_that_see_it(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (100, 100))
    v[:, :, 50] = torch.nan
    out = kernels.flash_attention(q, k, v, causal=True)
    assert out[:, :, 50:].isnan().all()


def test_infinities_and_the_largest_numbers_of_float32_count_for_what_they_are(device: str) -> None:
    # On tensor cores a value is two pieces, and what an infinity leaves for the second is NaN.
    q, k, v = inputs(device, torch.float32, (100, 150))
    q[..., 5] = q[..., 5].abs() + 0.1
    k[:, :, 60, 5] = -torch.inf  # which no query attends to then
    v[:, :, 20, 7] = 3.4e38
    expected = reference(q, k, v)
    v[:, :, 50, 3] = torch.inf
    expected[..., 3] = torch.inf
    out, lse = flash_attention_with_lse(q, k, v)
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)
    scores = q.shape[-1] ** -0.5 * q.double() @ k.double().transpose(-2, -1)
    torch.testing.assert_close(lse.double(), scores.logsumexp(dim=-1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("where", ["queries", "keys", "values"])
@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_many_rows_of_float32_that_are_not_finite(where: str, number: float, device: str) -> None:
    q, k, v = inputs(device, torch.float32, (200, 300), head_dim=128)
    q, k = q.abs(), k.abs()
    {"queries": q, "keys": k, "values": v}[where][:, :, 100:] = number
    out, lse = flash_attention_with_lse(q, k, v)
    expected = reference(q, k, v)
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5, equal_nan=True)
    scores = q.shape[-1] ** -0.5 * q.double() @ k.double().transpose(-2, -1)
    expected_lse = torch.where(scores.isfinite().all(dim=-1), scores.logsumexp(dim=-1), lse.double())
    torch.testing.assert_close(lse.double(), expected_lse, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
def test_float32_is_as_exact_as_sums_of_float32(head_dim: int, device: str) -> None:
    # A tenth of what TOLERANCE allows: products of pieces of 11 bits must keep what the pieces' products together have.
    q, k, v = inputs(device, torch.float32, (128, 1000), head_dim=head_dim)
    expected = reference(q, k, v)
    error = (kernels.flash_attention(q, k, v).double() - expected).norm() / expected.norm()
    assert error < 2e-6
