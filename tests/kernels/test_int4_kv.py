"""int4_kv_append and int4_decode_attention: codes to the bit, the window, and attention over what they stand for."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest
import torch

from perf_suite.benchmarks.decode_attention import decode_attention as reference
from perf_suite.quantized_kv import (
    int4_dequantize_keys,
    int4_dequantize_values,
    int4_quantize_keys,
    int4_quantize_values,
    with_window,
)
from warpwatch import kernels

from .bfloat16 import skip_without_bfloat16
from .test_flash_attention import assert_attends

Cache = tuple[torch.Tensor, ...]  # codes of keys and values, scales of both, windows of both
DTYPES = [torch.float16, torch.bfloat16]
HEAD_DIMS = [64, 128, 256]


def inputs(
    device: str,
    dtype: torch.dtype,
    seq: tuple[int, int],
    *,
    head_dim: int = 64,
    heads: tuple[int, int] = (4, 2),
    batch: int = 2,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    (seq_q, seq_kv), (heads_q, heads_kv) = seq, heads
    q = torch.randn(batch, heads_q, seq_q, head_dim, device=device)
    k, v = torch.randn(2, batch, heads_kv, seq_kv, head_dim, device=device)
    return q.to(dtype), k.to(dtype), v.to(dtype)


def quantized(k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor, spare: int = 1) -> Cache:
    """The cache of k and v by the reference, with whole groups of room behind, NaN where no kernel may read."""
    parts = []
    for x, quantize in ((k, int4_quantize_keys), (v, int4_quantize_values)):
        batch, heads, seq, head_dim = x.shape
        capacity = (-(-seq // 32) + spare) * 32
        window = x.new_full((batch, heads, 32, head_dim), torch.nan)
        padded = x.new_zeros(batch, heads, capacity, head_dim)
        padded[:, :, :seq] = x
        codes, scales = quantize(padded)
        for b, length in enumerate(lengths.clamp(0, seq).tolist()):
            whole = length // 32 * 32
            window[b, :, : length - whole] = x[b, :, whole:length]
            scales[b, :, whole // (32 if scales.shape[2] < capacity else 1) :] = torch.nan
        parts.append((codes, scales, window))
    return parts[0][0], parts[1][0], parts[0][1], parts[1][1], parts[0][2], parts[1][2]


def expected(q: torch.Tensor, cache: Cache, lengths: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    k_codes, v_codes, k_scales, v_scales, k_window, v_window = cache
    k = with_window(int4_dequantize_keys(k_codes, k_scales), k_window, lengths)
    v = with_window(int4_dequantize_values(v_codes, v_scales), v_window, lengths)
    return reference(q, k, v, lengths, scale)


def lengths_on(device: str, *lengths: int) -> torch.Tensor:
    return torch.tensor(lengths, dtype=torch.int32, device=device)


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("tokens", [1, 3, 8])
def test_agrees_with_float64_at_the_edges_of_tiles(tokens: int, dtype: torch.dtype, head_dim: int, device: str) -> None:
    q, k, v = inputs(device, dtype, (tokens, 1000), head_dim=head_dim, heads=(8, 2), batch=10)
    lengths = lengths_on(device, 0, 1, 17, 31, 32, 33, 127, 129, 999, 1000)
    cache = quantized(k, v, lengths)
    out = kernels.int4_decode_attention(q, *cache, lengths)
    assert out.dtype == dtype
    assert out.is_contiguous()
    assert_attends(out, expected(q, cache, lengths))


@pytest.mark.parametrize("heads", [(4, 4), (32, 8), (24, 1), (5, 1)], ids=str)
@pytest.mark.parametrize("batch", [1, 64])
def test_groups_of_heads_and_batches(batch: int, heads: tuple[int, int], device: str) -> None:
    q, k, v = inputs(device, torch.float16, (2, 257), heads=heads, batch=batch)
    lengths = torch.randint(0, 258, (batch,), dtype=torch.int32, device=device)
    cache = quantized(k, v, lengths)
    assert_attends(kernels.int4_decode_attention(q, *cache, lengths), expected(q, cache, lengths))


@pytest.mark.parametrize("length", [1, 17, 1000, 4097])
def test_long_caches_in_one_sequence(length: int, device: str) -> None:
    q, k, v = inputs(device, torch.float16, (1, 4097), head_dim=128, heads=(8, 2), batch=1)
    lengths = lengths_on(device, length)
    cache = quantized(k, v, lengths)
    assert_attends(kernels.int4_decode_attention(q, *cache, lengths), expected(q, cache, lengths))


@pytest.mark.parametrize("size", [2.0**-20, 2.0**10])
def test_queries_of_any_size_keep_their_precision(size: float, device: str) -> None:
    q, k, v = inputs(device, torch.float16, (1, 300))
    lengths = lengths_on(device, 300, 8)
    cache = quantized(k, v, lengths)
    scale = 0.125 / size
    out = kernels.int4_decode_attention((q.float() * size).half(), *cache, lengths, scale=scale)
    rounded = (q.float() * size).half()  # small ones are subnormal
    assert_attends(out, expected(rounded, cache, lengths, scale), largest_score=10.0)


@pytest.mark.parametrize("size", [2.0**-9, 1.0, 30.0])
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_values_of_any_size_keep_their_precision_next_to_a_sink(head_dim: int, size: float, device: str) -> None:
    # The first key draws half of the attention, thousands of others have the rest: weights of 2e-4 of the largest.
    q, k, v = inputs(device, torch.float16, (1, 4096), head_dim=head_dim, heads=(2, 2), batch=1)
    direction = q.float() / q.float().square().sum(-1, keepdim=True)
    k = (0.1 * k.float()).half()
    k[:, :, :1] = (8.5 * head_dim**0.5 * direction).half()
    v = (v.float() * size).half()
    lengths = lengths_on(device, 4096)
    cache = quantized(k, v, lengths)
    wanted = expected(q, cache, lengths)
    out = kernels.int4_decode_attention(q, *cache, lengths).double()
    assert (out - wanted).norm() < 2.0**-8 * wanted.norm()


def test_outlier_channels_of_keys(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (1, 400), head_dim=128)
    k[..., ::40] *= 30
    lengths = lengths_on(device, 400, 399)
    cache = quantized(k, v, lengths)
    wanted = expected(q, cache, lengths)
    out = kernels.int4_decode_attention(q, *cache, lengths).double()
    # Queries times scales are rounded to float16, as dequantized keys would be: each of a score's four large terms, of
    # size 30 / sqrt(128) and more, is off by 2^-12 of it on average, and a weight by as much as its score.
    assert (out - wanted).norm() < 2.0**-8 * wanted.norm()


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float32], ids=str)
@pytest.mark.parametrize("head_dim", [32, 64, 96, 128, 256])
@pytest.mark.parametrize("steps", [(1,) * 35, (17, 15, 1, 31, 33), (100,), (31, 70, 3), (32, 64)], ids=str)
def test_append_writes_the_references_bits_however_tokens_come(
    steps: tuple[int, ...], head_dim: int, dtype: torch.dtype, device: str
) -> None:
    seq = sum(steps)
    _, k, v = inputs(device, dtype, (1, seq), head_dim=head_dim)
    k[0, 0, :, 3] = 7.5  # a channel without any range
    late = 5  # the second sequence began with so many tokens less
    cache = tuple(part.fill_(0) for part in quantized(k, v, lengths_on(device, 0, 0)))
    done = 0
    for step in steps:
        done += step
        lengths = lengths_on(device, done, done - late)
        kernels.int4_kv_append(k[:, :, done - step : done], v[:, :, done - step : done], *cache, lengths)
    for b, first in ((0, 0), (1, late)):
        one_k, one_v = k[b : b + 1, :, first:], v[b : b + 1, :, first:]
        length = seq - first
        wanted = quantized(one_k, one_v, lengths_on(device, length))
        whole = length // 32 * 32
        for part, other, end in zip(
            cache, wanted, (whole, whole, whole // 32, whole, length - whole, length - whole), strict=True
        ):
            assert torch.equal(part[b, :, :end], other[0, :, :end])


def test_append_leaves_out_what_has_no_place(device: str) -> None:
    _, k, v = inputs(device, torch.float16, (1, 70))
    cache = tuple(part.fill_(0) for part in quantized(k[:, :, :64], v[:, :, :64], lengths_on(device, 0, 0), spare=0))
    kernels.int4_kv_append(k, v, *cache, lengths_on(device, 66, 0))  # positions -4 .. 65 of 64
    wanted = quantized(k[:, :, 4:68], v[:, :, 4:68], lengths_on(device, 64, 64), spare=0)
    for part, other in zip(cache[:4], wanted[:4], strict=True):
        assert torch.equal(part[0], other[0])
        assert not part[1].any()


def test_append_takes_strides_and_says_what_is_not_a_number(device: str) -> None:
    _, k, v = inputs(device, torch.float16, (1, 32))
    k[0, 0, 1, 5] = torch.nan
    v[1, 1, 2, 40] = torch.nan
    tokens_first = k.transpose(1, 2).contiguous().transpose(1, 2)
    cache = tuple(part.fill_(0) for part in quantized(k, v, lengths_on(device, 0, 0)))
    kernels.int4_kv_append(tokens_first, v, *cache, lengths_on(device, 32, 32))
    assert cache[2].isnan().nonzero().tolist() == [[0, 0, 0, 1, 5]]
    assert cache[3].isnan().nonzero().tolist() == [[1, 1, 2, 1, 1]]


def test_what_was_appended_is_attended(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (1, 70))
    cache = tuple(part.fill_(0) for part in quantized(k, v, lengths_on(device, 0, 0)))
    for first, last in [(0, 33), (33, 34), (34, 70)]:
        lengths = lengths_on(device, last, last)
        kernels.int4_kv_append(k[:, :, first:last], v[:, :, first:last], *cache, lengths)
    out = kernels.int4_decode_attention(q, *cache, lengths)
    assert_attends(out, expected(q, cache, lengths))
    exact = reference(q, k, v, lengths)
    assert (out.double() - exact).norm() < 0.15 * exact.norm()  # what 4 bits cost unit normal keys and values


def beyond_half(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values with outliers of bfloat16: of one sign, of both, infinite, just within float16, whole groups."""
    skip_without_bfloat16(device, torch.bfloat16)
    k, v = (torch.randn(1, 2, 77, 64, device=device) for _ in range(2))
    for x in (k, v):
        x[:, :, 3, 3], x[:, :, 5, 40], x[:, :, 6, 41] = 7e4, -3e38, 3e38
        x[:, :, 40, 7], x[:, :, 41, 8], x[:, :, 42, 9] = torch.inf, 65280.0, -65280.0
        x[:, :, 66, 3], x[:, :, 70, 4] = 7e4, -7e4  # which stay in the window
        x[:, :, :32, 11], x[:, :, 9, 32:] = 1e5, -1e5
    return k.bfloat16(), v.bfloat16()


def test_magnitudes_beyond_float16_count_as_its_largest(device: str) -> None:
    k, v = beyond_half(device)
    lengths = lengths_on(device, 77)
    cache = _empty_cache(k, 96)
    kernels.int4_kv_append(k, v, *cache, lengths)
    k_codes, v_codes, k_scales, v_scales, _, _ = cache
    for x, (codes, scales), dequantize in (
        (k, (k_codes, k_scales), int4_dequantize_keys),
        (v, (v_codes, v_scales), int4_dequantize_values),
    ):
        held = dequantize(codes, scales)[:, :, :64]
        assert held.abs().max() <= 65504
        # Half a step of the grid, which reaches over the whole of float16 at most, and a rounding of it.
        assert (held - x[:, :, :64].double().clamp(-65504, 65504)).abs().max() <= 131008 / 30 + 90
    assert torch.equal(k_codes[:, :, :64], int4_quantize_keys(k[:, :, :64])[0])
    assert torch.equal(k_scales[:, :, :2], int4_quantize_keys(k[:, :, :64])[1])
    assert torch.equal(v_codes[:, :, :64], int4_quantize_values(v[:, :, :64])[0])
    assert torch.equal(v_scales[:, :, :64], int4_quantize_values(v[:, :, :64])[1])
    q = torch.zeros(1, 4, 1, 64, dtype=torch.bfloat16, device=device)
    q[:, 1] = 1e-3
    out = kernels.int4_decode_attention(q, *cache, lengths)
    within = (*cache[:4], *(x.float().clamp(-65504, 65504) for x in cache[4:]))
    torch.testing.assert_close(out.double(), expected(q, within, lengths), rtol=2e-2, atol=4.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_each_infinity_of_the_window_counts_as_float16s_largest(head_dim: int, dtype: torch.dtype, device: str) -> None:
    skip_without_bfloat16(device, dtype)
    k, v = torch.randn(2, 1, 2, 20, head_dim, device=device).to(dtype)
    for x in (k, v):  # channels 2 i and 2 i + 1 share a register
        x[:, :, 3, 6], x[:, :, 5, 9] = torch.inf, -torch.inf
        x[:, :, 7, 12], x[:, :, 7, 13] = torch.inf, -torch.inf
        x[:, :, 8, 14], x[:, :, 8, 15] = -torch.inf, 0.0
    v[:, :, 9, 20], v[:, :, 9, 21] = torch.nan, torch.inf
    lengths = lengths_on(device, 20)
    cache = _empty_cache(k, 32)
    kernels.int4_kv_append(k, v, *cache, lengths)
    q = torch.zeros(1, 4, 1, head_dim, dtype=dtype, device=device)  # an infinite key would make NaN of its score
    out = kernels.int4_decode_attention(q, *cache, lengths)[:, :, 0]
    mean = v.double().clamp(-65504, 65504).mean(2).repeat_interleave(2, dim=1)
    assert mean.isnan().sum() == 4
    torch.testing.assert_close(out.double(), mean, rtol=1e-2, atol=2e-2, equal_nan=True)


def test_the_triton_twins_agree_beyond_float16(device: str, twin: Callable[..., Callable[..., object]]) -> None:
    if device == "cpu" and numpy.lib.NumpyVersion(numpy.__version__) >= "2.4.0":
        pytest.skip("Triton 3.6's interpreter makes loop bounds in a way that NumPy refuses from 2.4 on")
    k, v = (x.float() for x in beyond_half(device))
    lengths = lengths_on(device, 77)
    by_operator, by_twin = _empty_cache(k, 96), _empty_cache(k, 96)
    kernels.int4_kv_append(k, v, *by_operator, lengths)
    if device == "cpu":
        for tensor in (k, v, *by_twin, lengths):
            tensor.share_memory_()
    twin("int4_kv_append")(k, v, *by_twin, lengths)
    for ours, theirs in zip(by_operator, by_twin, strict=True):
        assert torch.equal(ours, theirs)


def _empty_cache(k: torch.Tensor, capacity: int) -> Cache:
    batch, heads, _, head_dim = k.shape
    codes = [torch.zeros(batch, heads, capacity, head_dim // 2, dtype=torch.uint8, device=k.device) for _ in range(2)]
    k_scales = torch.zeros(batch, heads, capacity // 32, 2, head_dim, dtype=torch.float16, device=k.device)
    v_scales = torch.zeros(batch, heads, capacity, head_dim // 32, 2, dtype=torch.float16, device=k.device)
    windows = [k.new_zeros(batch, heads, 32, head_dim) for _ in range(2)]
    return codes[0], codes[1], k_scales, v_scales, windows[0], windows[1]


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(RuntimeError) as refused:
        call()
    return str(refused.value).splitlines()[0]


def test_errors_state_what_was_passed_and_what_is_expected(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (1, 64))
    lengths = lengths_on(device, 64, 64)
    cache = quantized(k, v, lengths, spare=0)
    attention, append = kernels.int4_decode_attention, kernels.int4_kv_append

    def but(**parts: torch.Tensor) -> Cache:
        names = ("k_codes", "v_codes", "k_scales", "v_scales", "k_window", "v_window")
        return tuple(parts.get(name, part) for name, part in zip(names, cache, strict=True))

    said = {
        "int4_decode_attention: k_codes must be uint8, got int8": (
            lambda: attention(q, *but(k_codes=cache[0].to(torch.int8)), lengths)
        ),
        "int4_decode_attention: v_scales must have shape [2, 2, 64, 2, 2] "
        "(batch, heads_kv, capacity, head_dim / 32, 2), got [2, 2, 63, 2, 2]": (
            lambda: attention(q, *but(v_scales=cache[3][:, :, :63].contiguous()), lengths)
        ),
        "int4_decode_attention: k_window must be float16, got float32": (
            lambda: attention(q, *but(k_window=cache[4].float()), lengths)
        ),
        "int4_decode_attention: capacity must be a multiple of 32, a group of tokens, up to 1073741824, "
        "got k_codes of shape [2, 2, 63, 32]": (lambda: attention(q, *but(k_codes=cache[0][:, :, :63]), lengths)),
        "int4_decode_attention: heads_q must be a positive multiple of heads_kv, got 3 and 2": (
            lambda: attention(q[:, :3], *cache, lengths)
        ),
        "int4_kv_append: head_dim must be a multiple of 32, a group of channels, up to 256, got 40": (
            lambda: append(k[..., :40], v[..., :40], *cache, lengths)
        ),
        "int4_kv_append: lengths must have shape [2] (batch), got [1]": (lambda: append(k, v, *cache, lengths[:1])),
    }
    for sentence, call in said.items():
        assert refusal(call) == sentence


def test_the_gpu_says_what_it_does_not_take(cuda: str) -> None:
    lengths = lengths_on(cuda, 40, 40)
    q, k, v = inputs(cuda, torch.float32, (1, 40))
    assert "must be float16 or bfloat16" in refusal(
        lambda: kernels.int4_decode_attention(q, *quantized(k, v, lengths), lengths)
    )
    q, k, v = inputs(cuda, torch.float16, (1, 40), head_dim=96)
    assert "head_dim must be 64, 128 or 256 on a GPU, got 96" in refusal(
        lambda: kernels.int4_decode_attention(q, *quantized(k, v, lengths), lengths)
    )


def test_are_well_behaved_operators(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (1, 40))
    lengths = lengths_on(device, 40, 17)
    cache = tuple(part.nan_to_num() for part in quantized(k, v, lengths))
    of = torch.ops.warpwatch
    torch.library.opcheck(of.int4_decode_attention.default, (q, *cache, lengths, None))
    torch.library.opcheck(of.int4_kv_append.default, (k[:, :, :3], v[:, :, :3], *cache, lengths))


def test_compile_without_graph_breaks(device: str) -> None:
    def step(q, k, v, cache, lengths):  # type: ignore[no-untyped-def]
        kernels.int4_kv_append(k, v, *cache, lengths)
        return kernels.int4_decode_attention(q, *cache, lengths) * 2

    q, k, v = inputs(device, torch.float16, (1, 40))
    lengths = lengths_on(device, 40, 17)
    cache = quantized(k, v, lengths)
    other: Cache = tuple(part.clone() for part in cache)
    new = torch.randn_like(k[:, :, :1])
    out = torch.compile(step, fullgraph=True)(q, new, new, cache, lengths)
    assert torch.equal(out, step(q, new, new, other, lengths))
    assert torch.equal(cache[0], other[0])


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("tokens", [1, 4])
def test_triton_twin_agrees(
    tokens: int, head_dim: int, device: str, twin: Callable[[str], Callable[..., torch.Tensor]]
) -> None:
    if device == "cpu" and numpy.lib.NumpyVersion(numpy.__version__) >= "2.4.0":
        pytest.skip("Triton 3.6's interpreter makes loop bounds in a way that NumPy refuses from 2.4 on")
    q, k, v = inputs(device, torch.float16, (tokens, 300), head_dim=head_dim, batch=3)
    lengths = lengths_on(device, 0, 77, 300)
    cache = quantized(k, v, lengths)
    out = twin("int4_decode_attention")(q, *cache, lengths)
    assert_attends(out, expected(q, cache, lengths))


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float32], ids=str)
@pytest.mark.parametrize("head_dim", [32, 96, 128])
@pytest.mark.parametrize("seq", [1, 31, 70])
def test_triton_twin_appends_the_same_bytes(
    seq: int, head_dim: int, dtype: torch.dtype, device: str, twin: Callable[..., Callable[..., object]]
) -> None:
    if device == "cpu" and head_dim != 96 and dtype != torch.float16:
        pytest.skip("what the dtype changes is seen with a head_dim of 96; the interpreter takes long")
    _, k, v = inputs(device, dtype, (1, seq), head_dim=head_dim, batch=6)
    _, old_k, old_v = inputs(device, dtype, (1, 128), head_dim=head_dim, batch=6)
    k[1, 0, :, 3] = 0.25  # a grid without a step
    # The new rows end a group, begin one, lie in two; one sequence has no place for its first ones, one for its last.
    lengths = lengths_on(device, seq, 64, 97, 5, 130, 0)
    ours = quantized(old_k, old_v, (lengths - seq).clamp(0, 128), spare=0)
    theirs = tuple(part.clone() for part in ours)
    kernels.int4_kv_append(k, v, *ours, lengths)
    if device == "cpu":  # the interpreter is another process: what it writes to comes back only through shared memory
        for tensor in (k, v, *theirs, lengths):
            tensor.share_memory_()
    assert twin("int4_kv_append")(k, v, *theirs, lengths) is None
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(other.nan_to_num(-1.0), mine.nan_to_num(-1.0))


def test_triton_twin_says_what_is_not_a_number(device: str, twin: Callable[..., Callable[..., object]]) -> None:
    _, k, v = inputs(device, torch.float16, (1, 32))
    k[0, 0, 1, 5] = torch.nan
    v[1, 1, 2, 40] = torch.nan
    cache = tuple(part.fill_(0) for part in quantized(k, v, lengths_on(device, 0, 0)))
    lengths = lengths_on(device, 32, 32)
    if device == "cpu":
        for tensor in (k, v, *cache, lengths):
            tensor.share_memory_()
    twin("int4_kv_append")(k, v, *cache, lengths)
    assert cache[2].isnan().nonzero().tolist() == [[0, 0, 0, 1, 5]]
    assert cache[3].isnan().nonzero().tolist() == [[1, 1, 2, 1, 1]]


def test_a_cuda_graph_stays_right_as_sequences_grow(cuda: str) -> None:
    q, k, v = inputs(cuda, torch.float16, (1, 1024), heads=(8, 2))
    lengths = lengths_on(cuda, 1024, 1024)
    cache = quantized(k, v, lengths)
    for window in cache[4:]:
        window.normal_()  # each length below ends in it
    lengths.fill_(1)
    kernels.int4_decode_attention(q, *cache, lengths)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernels.int4_kv_append(k[:, :, :1], v[:, :, :1], *cache, lengths)
        out = kernels.int4_decode_attention(q, *cache, lengths)
    for length in (1, 33, 1000):
        lengths.fill_(length)
        graph.replay()
        assert torch.equal(cache[4][:, :, (length - 1) % 32], k[:, :, 0])
        assert_attends(out, expected(q, cache, lengths))
