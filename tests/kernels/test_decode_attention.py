"""decode_attention against float64: lengths, parts, packed query heads, edges of tiles, free strides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from perf_suite.benchmarks.decode_attention import decode_attention as reference
from warpwatch import kernels

from .test_flash_attention import DTYPES, assert_attends, inputs

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
# Keys come in tiles of 16, a block's warps take 64 at once and so do the CPU's blocks; parts are of 64 keys at least.
CAPACITIES = [1, 7, 8, 15, 16, 17, 63, 64, 65, 127, 129, 1000, 4097]
# Query heads, key heads: packed rows of 1 to 64 a token, so one row tile, two, and several blocks of them.
HEADS = [(1, 1), (4, 2), (6, 2), (5, 1), (16, 1), (32, 2), (32, 1), (64, 1)]


def cache(
    device: str,
    dtype: torch.dtype,
    capacity: int,
    *,
    tokens: int = 1,
    heads: tuple[int, int] = (4, 2),
    head_dim: int = 64,
    batch: int = 2,
) -> Tensors:
    return inputs(device, dtype, (tokens, capacity), head_dim=head_dim, heads=heads, batch=batch)


def lengths_on(device: str, *lengths: int) -> torch.Tensor:
    return torch.tensor(lengths, dtype=torch.int32, device=device)


@pytest.mark.parametrize("tokens", [1, 2, 8])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("capacity", CAPACITIES)
def test_agrees_with_float64_at_the_edges_of_tiles(capacity: int, dtype: torch.dtype, tokens: int, device: str) -> None:
    q, k, v = cache(device, dtype, capacity, tokens=tokens)
    out = kernels.decode_attention(q, k, v)
    assert out.dtype == dtype
    assert out.is_contiguous()
    assert_attends(out, reference(q, k, v))


@pytest.mark.parametrize("tokens", [1, 3, 8])
@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_query_heads_of_any_number_share_a_key_head(heads: tuple[int, int], tokens: int, device: str) -> None:
    q, k, v = cache(device, torch.float16, 200, tokens=tokens, heads=heads)
    lengths = lengths_on(device, 200, 131)
    assert_attends(kernels.decode_attention(q, k, v, lengths), reference(q, k, v, lengths))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("heads", [(4, 1), (24, 1)], ids=str)
def test_head_dims_agree_with_one_row_tile_and_with_two(
    heads: tuple[int, int], head_dim: int, dtype: torch.dtype, device: str
) -> None:
    q, k, v = cache(device, dtype, 200, tokens=2, heads=heads, head_dim=head_dim)
    lengths = lengths_on(device, 200, 131)
    assert_attends(kernels.decode_attention(q, k, v, lengths), reference(q, k, v, lengths))


@pytest.mark.parametrize("batch", [1, 3, 64])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_few_and_many_sequences_agree(batch: int, head_dim: int, device: str) -> None:
    # One sequence is divided into many parts, 64 into none.
    q, k, v = cache(device, torch.float16, 1000, heads=(8, 2), head_dim=head_dim, batch=batch)
    lengths = torch.randint(0, 1001, (batch,), dtype=torch.int32, device=device)
    assert_attends(kernels.decode_attention(q, k, v, lengths), reference(q, k, v, lengths))


@pytest.mark.parametrize("tokens", [1, 4])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_lies_behind_a_sequences_length_is_not_read(dtype: torch.dtype, tokens: int, device: str) -> None:
    known = [0, 1, 3, 16, 17, 63, 64, 200, 1000, 1024]
    q, k, v = cache(device, dtype, 1024, tokens=tokens, batch=len(known))
    for b, length in enumerate(known):
        k[b, :, length:], v[b, :, length:] = torch.nan, torch.nan
    lengths = lengths_on(device, *known)
    assert_attends(kernels.decode_attention(q, k, v, lengths), reference(q, k, v, lengths))


def test_lengths_beyond_the_cache_are_taken_as_its_ends(device: str) -> None:
    q, k, v = cache(device, torch.float16, 100, tokens=2)
    lengths = lengths_on(device, -5, 2**31 - 1)
    out = kernels.decode_attention(q, k, v, lengths)
    assert_attends(out, reference(q, k, v, lengths_on(device, 0, 100)))


def test_a_query_that_sees_no_key_gives_zeros(device: str) -> None:
    q, k, v = cache(device, torch.float16, 300, tokens=5)
    out = kernels.decode_attention(q, k, v, lengths_on(device, 0, 3))
    assert torch.equal(out[0], torch.zeros_like(out[0]))
    assert torch.equal(out[1, :, :2], torch.zeros_like(out[1, :, :2]))
    assert not torch.equal(out[1, :, 2], torch.zeros_like(out[1, :, 2]))
    nothing = kernels.decode_attention(q, k[:, :, :0], v[:, :, :0])
    assert torch.equal(nothing, torch.zeros_like(q))


def test_no_sequence_gives_an_empty_tensor(device: str) -> None:
    q, k, v = cache(device, torch.float16, 16, batch=0)
    assert kernels.decode_attention(q, k, v, lengths_on(device)).shape == q.shape


@pytest.mark.parametrize("head_dim", [8, 40, 80])
def test_the_cpu_takes_other_head_dims(head_dim: int) -> None:
    q, k, v = cache("cpu", torch.float32, 133, tokens=2, head_dim=head_dim)
    assert_attends(kernels.decode_attention(q, k, v), reference(q, k, v))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 4.0])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_takes_a_scale(dtype: torch.dtype, scale: float, device: str) -> None:
    q, k, v = cache(device, dtype, 700)
    out = kernels.decode_attention(q, k, v, scale=scale)
    assert_attends(out, reference(q, k, v, scale=scale), largest_score=50 * scale)  # |q k| is below 50


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scores_beyond_the_range_of_exp_stay_finite(dtype: torch.dtype, device: str) -> None:
    q, k, v = cache(device, dtype, 700)
    q, k = q * 40, k * 40  # scores of some thousands: one key, and so one part, has all the weight
    assert_attends(kernels.decode_attention(q, k, v), reference(q, k, v), 40 * 40 * 50 / 8)


STRIDED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "batch, seq, heads, head_dim": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "rows with room between them": lambda x: torch.cat((x, x), dim=-1)[..., : x.shape[-1]],
    "one head seen by all": lambda x: x[:, :1].expand(x.shape),
    "every other position": lambda x: x.repeat_interleave(2, dim=2)[:, :, ::2],
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", STRIDED)
def test_strides_other_than_the_last_are_free(layout: str, dtype: torch.dtype, device: str) -> None:
    q, k, v = (STRIDED[layout](x) for x in cache(device, dtype, 300, tokens=3))
    out = kernels.decode_attention(q, k, v)
    assert out.is_contiguous()
    assert_attends(out, reference(q, k, v))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_queries_at_odd_addresses_are_taken(dtype: torch.dtype, device: str) -> None:
    q, k, v = cache(device, dtype, 100, tokens=3)
    q = torch.cat((q, q[..., :1]), dim=-1)[..., 1:]
    assert_attends(kernels.decode_attention(q, k, v), reference(q, k, v))


def test_the_same_input_gives_the_same_bits(device: str) -> None:
    q, k, v = cache(device, torch.float16, 3000, heads=(8, 2), head_dim=128)
    first = kernels.decode_attention(q, k, v)
    for _ in range(3):
        assert torch.equal(kernels.decode_attention(q, k, v), first)


def test_a_nan_reaches_the_queries_that_see_it(device: str) -> None:
    q, k, v = cache(device, torch.float16, 1000, tokens=3)
    v[:, :, 998] = torch.nan  # the newest key but one: the last two tokens see it
    assert kernels.decode_attention(q, k, v)[:, :, 1:].isnan().all()
    k[:] = torch.nan
    assert kernels.decode_attention(q, k, v).isnan().all()


def test_leaves_its_input_alone(device: str) -> None:
    given = (*cache(device, torch.float16, 70), lengths_on(device, 70, 3))
    before = [tensor.clone() for tensor in given]
    kernels.decode_attention(*given)
    assert all(torch.equal(now, then) for now, then in zip(given, before, strict=True))


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_long_caches_agree_with_pytorch(head_dim: int, cuda: str) -> None:
    q, k, v = cache(cuda, torch.float16, 40_000, heads=(32, 8), head_dim=head_dim, batch=3)
    expected = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), enable_gqa=True)
    assert_attends(kernels.decode_attention(q, k, v), expected.double())


def test_offsets_beyond_32_bits(cuda: str) -> None:
    if torch.cuda.mem_get_info()[0] < 20 * 2**30:
        pytest.skip("needs 20 GiB of free GPU memory")
    k = torch.empty(1, 520, 32768, 128, dtype=torch.float16, device=cuda)  # 2.2e9 elements in k and in v
    v = torch.empty_like(k)
    k[:, -1].normal_()
    v[:, -1].normal_()
    q = torch.randn(1, 520, 3, 128, dtype=torch.float16, device=cuda)
    out = kernels.decode_attention(q, k, v)
    assert_attends(out[:, -1:], reference(q[:, -1:], k[:, -1:], v[:, -1:]))
