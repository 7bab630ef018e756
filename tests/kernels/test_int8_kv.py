"""int8_kv_append and int8_decode_attention: codes to the bit, and attention over what they stand for."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest
import torch

from perf_suite.benchmarks.decode_attention import decode_attention as reference
from perf_suite.quantized_kv import int8_dequantize, int8_quantize
from warpwatch import kernels

from .test_flash_attention import assert_attends

Cache = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]  # codes of keys and values, scales of both
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


def quantized(k: torch.Tensor, v: torch.Tensor, spare: int = 3) -> Cache:
    """The cache of k and v by the reference, with room behind that no kernel may read."""
    parts = []
    for x in (k, v):
        codes, scales = int8_quantize(x)
        room = codes.new_full((*codes.shape[:2], codes.shape[2] + spare, codes.shape[3]), 99)
        room[:, :, : codes.shape[2]] = codes
        behind = scales.new_full((*scales.shape[:2], scales.shape[2] + spare), torch.nan)
        behind[:, :, : scales.shape[2]] = scales
        parts.append((room, behind))
    return parts[0][0], parts[1][0], parts[0][1], parts[1][1]


def expected(q: torch.Tensor, cache: Cache, lengths: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    k_codes, v_codes, k_scales, v_scales = cache
    return reference(q, int8_dequantize(k_codes, k_scales), int8_dequantize(v_codes, v_scales), lengths, scale)


def lengths_on(device: str, *lengths: int) -> torch.Tensor:
    return torch.tensor(lengths, dtype=torch.int32, device=device)


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("tokens", [1, 3, 8])
def test_agrees_with_float64_at_the_edges_of_tiles(tokens: int, dtype: torch.dtype, head_dim: int, device: str) -> None:
    q, k, v = inputs(device, dtype, (tokens, 1000), head_dim=head_dim, heads=(8, 2), batch=10)
    lengths = lengths_on(device, 0, 1, 17, 31, 32, 33, 127, 129, 999, 1000)
    cache = quantized(k, v)
    out = kernels.int8_decode_attention(q, *cache, lengths)
    assert out.dtype == dtype
    assert out.is_contiguous()
    assert_attends(out, expected(q, cache, lengths))


@pytest.mark.parametrize("heads", [(4, 4), (32, 8), (24, 1), (5, 1)], ids=str)
@pytest.mark.parametrize("batch", [1, 64])
def test_groups_of_heads_and_batches(batch: int, heads: tuple[int, int], device: str) -> None:
    q, k, v = inputs(device, torch.float16, (2, 257), heads=heads, batch=batch)
    lengths = torch.randint(0, 258, (batch,), dtype=torch.int32, device=device)
    cache = quantized(k, v)
    assert_attends(kernels.int8_decode_attention(q, *cache, lengths), expected(q, cache, lengths))


@pytest.mark.parametrize("length", [1, 17, 1000, 4097])
def test_long_caches_in_one_sequence(length: int, device: str) -> None:
    q, k, v = inputs(device, torch.float16, (1, 4097), head_dim=128, heads=(8, 2), batch=1)
    cache = quantized(k, v)
    lengths = lengths_on(device, length)
    assert_attends(kernels.int8_decode_attention(q, *cache, lengths), expected(q, cache, lengths))


@pytest.mark.parametrize("size", [1e-6, 1e-3, 30.0])
def test_values_of_any_size_keep_their_precision(size: float, device: str) -> None:
    q, k, v = inputs(device, torch.bfloat16, (1, 300))
    v = v * size * torch.logspace(-2, 2, 300, device=device).to(v.dtype)[:, None]
    v[:, :, 7] = 0
    cache = quantized(k, v)
    lengths = lengths_on(device, 300, 8)
    wanted = expected(q, cache, lengths)
    out = kernels.int8_decode_attention(q, *cache, lengths).double()
    assert (out - wanted).norm() < 2.0**-8 * wanted.norm()  # the rounding of bf16


def test_keys_whose_values_have_the_scale_zero_keep_their_weight(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (1, 300))
    k_codes, v_codes, k_scales, v_scales = quantized(k, v)
    v_scales[:, :, :40] = 0
    cache = (k_codes, v_codes, k_scales, v_scales)
    lengths = lengths_on(device, 300, 33)
    assert_attends(kernels.int8_decode_attention(q, *cache, lengths), expected(q, cache, lengths))


@pytest.mark.parametrize("size", [2.0**-20, 2.0**10])
def test_queries_of_any_size_keep_their_precision(size: float, device: str) -> None:
    q, k, v = inputs(device, torch.float16, (1, 300))
    cache = quantized(k, v)
    lengths = lengths_on(device, 300, 8)
    scale = 0.125 / size
    out = kernels.int8_decode_attention((q.float() * size).half(), *cache, lengths, scale=scale)
    rounded = (q.float() * size).half()  # small ones are subnormal
    assert_attends(out, expected(rounded, cache, lengths, scale), largest_score=10.0)


def test_outlier_channels_of_keys(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (1, 400), head_dim=128)
    k[..., ::40] *= 30
    cache = quantized(k, v)
    lengths = lengths_on(device, 400, 399)
    assert_attends(kernels.int8_decode_attention(q, *cache, lengths), expected(q, cache, lengths), largest_score=100.0)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float32], ids=str)
@pytest.mark.parametrize("head_dim", [8, 64, 96, 128, 256])
@pytest.mark.parametrize("seq", [1, 17])
def test_append_writes_the_references_bits(seq: int, head_dim: int, dtype: torch.dtype, device: str) -> None:
    _, k, v = inputs(device, dtype, (1, seq), head_dim=head_dim, batch=4)
    k[0, 0, 0] = 0
    _, old_k, old_v = inputs(device, dtype, (1, 40), head_dim=head_dim, batch=4)
    cache = quantized(old_k, old_v)
    before = [part.clone() for part in cache]
    lengths = lengths_on(device, seq, 40, 5, 60)  # the third has no place for its first ones, the fourth for its last
    kernels.int8_kv_append(k, v, *cache, lengths)
    new = (*int8_quantize(k), *int8_quantize(v))
    for part, old, fresh in zip(cache, before, (new[0], new[2], new[1], new[3]), strict=True):
        for b, length in enumerate(lengths.tolist()):
            for position in range(43):
                row = position - (length - seq)
                wanted = fresh[b, :, row] if 0 <= row < seq else old[b, :, position]
                assert torch.equal(part[b, :, position].nan_to_num(-1.0), wanted.nan_to_num(-1.0))


def test_append_takes_strides_and_says_what_is_not_finite(device: str) -> None:
    _, k, v = inputs(device, torch.float16, (1, 4))
    k[0, 0, 1, 5] = torch.nan
    k[1, 1, 2, 9] = torch.inf
    tokens_first = k.transpose(1, 2).contiguous().transpose(1, 2)
    cache = quantized(torch.zeros_like(k), torch.zeros_like(v))
    kernels.int8_kv_append(tokens_first, v, *cache, lengths_on(device, 4, 4))
    finite = cache[2][:, :, :4].isfinite()
    assert not finite[0, 0, 1]
    assert not finite[1, 1, 2]
    assert finite.sum() == finite.numel() - 2


def test_what_was_appended_is_attended(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (1, 70))
    cache = quantized(torch.zeros_like(k), torch.zeros_like(v))
    for first, last in [(0, 33), (33, 34), (34, 70)]:
        lengths = lengths_on(device, last, last)
        kernels.int8_kv_append(k[:, :, first:last], v[:, :, first:last], *cache, lengths)
    assert torch.equal(cache[0][:, :, :70], int8_quantize(k)[0])
    out = kernels.int8_decode_attention(q, *cache, lengths)
    assert_attends(out, expected(q, cache, lengths))
    exact = reference(q, k, v, lengths)
    assert (out.double() - exact).norm() < 0.02 * exact.norm()  # what 8 bits cost unit normal keys and values


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(RuntimeError) as refused:
        call()
    return str(refused.value).splitlines()[0]


def test_errors_state_what_was_passed_and_what_is_expected(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (1, 40))
    k_codes, v_codes, k_scales, v_scales = quantized(k, v, spare=0)
    lengths = lengths_on(device, 40, 40)
    attention, append = kernels.int8_decode_attention, kernels.int8_kv_append
    said = {
        "int8_decode_attention: k_codes must be int8, got float16": (
            lambda: attention(q, k, v_codes, k_scales, v_scales, lengths)
        ),
        "int8_decode_attention: v_scales must have shape [2, 2, 40] (batch, heads_kv, capacity), got [2, 2, 39]": (
            lambda: attention(q, k_codes, v_codes, k_scales, v_scales[:, :, :39], lengths)
        ),
        "int8_decode_attention: heads_q must be a positive multiple of heads_kv, got 3 and 2": (
            lambda: attention(q[:, :3], k_codes, v_codes, k_scales, v_scales, lengths)
        ),
        "int8_decode_attention: lengths must have shape [2] (batch), got [1]": (
            lambda: attention(q, k_codes, v_codes, k_scales, v_scales, lengths[:1])
        ),
        "int8_kv_append: k and v differ in shape: [2, 2, 40, 64] against [2, 2, 39, 64]": (
            lambda: append(k, v[:, :, :39], k_codes, v_codes, k_scales, v_scales, lengths)
        ),
        "int8_kv_append: k_codes must have shape [2, 1, 40, 64] (batch, heads_kv, capacity, head_dim), "
        "got [2, 2, 40, 64]": (lambda: append(k[:, :1], v[:, :1], k_codes, v_codes, k_scales, v_scales, lengths)),
        "int8_kv_append: lengths must be int32, got int64": (
            lambda: append(k, v, k_codes, v_codes, k_scales, v_scales, lengths.long())
        ),
        "int8_kv_append: v_codes must not be expanded, for it is written to; got strides [5120, 0, 64, 1]": (
            lambda: append(k, v, k_codes, v_codes[:, :1].expand(v_codes.shape), k_scales, v_scales, lengths)
        ),
        "int8_kv_append: k_scales must not be expanded, for it is written to; got strides [0, 40, 1]": (
            lambda: append(k, v, k_codes, v_codes, k_scales[:1].expand(k_scales.shape), v_scales, lengths)
        ),
        "int8_kv_append: k_codes must not show one memory in several places, for it is written to; got strides "
        "[5120, 2560, 32, 1] for shape [2, 2, 40, 64]": (
            lambda: append(k, v, k_codes.as_strided(k.shape, (5120, 2560, 32, 1)), v_codes, k_scales, v_scales, lengths)
        ),
    }
    for sentence, call in said.items():
        assert refusal(call) == sentence


def test_the_gpu_says_what_it_does_not_take(cuda: str) -> None:
    q, k, v = inputs(cuda, torch.float32, (1, 40))
    lengths = lengths_on(cuda, 40, 40)
    assert "must be float16 or bfloat16" in refusal(lambda: kernels.int8_decode_attention(q, *quantized(k, v), lengths))
    q, k, v = inputs(cuda, torch.float16, (1, 40), head_dim=96)
    assert "head_dim must be 64, 128 or 256 on a GPU, got 96" in refusal(
        lambda: kernels.int8_decode_attention(q, *quantized(k, v), lengths)
    )


def test_the_gpu_says_how_many_rows_it_appends_at_once(cuda: str) -> None:
    new = torch.zeros(1, 1, 1, 8, dtype=torch.float16, device=cuda).expand(1, 4096, 2**18, 8)
    codes = torch.zeros(1, 4096, 1, 8, dtype=torch.int8, device=cuda)
    scales = torch.zeros(1, 4096, 1, device=cuda)
    said = refusal(
        lambda: kernels.int8_kv_append(new, new, codes, codes.clone(), scales, scales.clone(), lengths_on(cuda, 1))
    )
    assert said == (
        "int8_kv_append: k and v have up to 1073741823 rows (batch * heads_kv * seq) on a GPU, got 1073741824; "
        "append fewer tokens at a time"
    )


def test_are_well_behaved_operators(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (1, 40))
    cache = tuple(part.nan_to_num() for part in quantized(k, v))
    lengths = lengths_on(device, 40, 17)
    of = torch.ops.warpwatch
    torch.library.opcheck(of.int8_decode_attention.default, (q, *cache, lengths, None))
    torch.library.opcheck(of.int8_kv_append.default, (k[:, :, :3], v[:, :, :3], *cache, lengths))


def test_compile_without_graph_breaks(device: str) -> None:
    def step(q, k, v, cache, lengths):  # type: ignore[no-untyped-def]
        kernels.int8_kv_append(k, v, *cache, lengths)
        return kernels.int8_decode_attention(q, *cache, lengths) * 2

    q, k, v = inputs(device, torch.float16, (1, 40))
    cache = quantized(k, v)
    other: Cache = tuple(part.clone() for part in cache)  # type: ignore[assignment]
    new = torch.randn_like(k[:, :, :1])
    lengths = lengths_on(device, 40, 17)
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
    cache = quantized(k, v)
    lengths = lengths_on(device, 0, 77, 300)
    out = twin("int8_decode_attention")(q, *cache, lengths)
    assert_attends(out, expected(q, cache, lengths))


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float32], ids=str)
@pytest.mark.parametrize("head_dim", [8, 96, 128])
@pytest.mark.parametrize("seq", [1, 41])
def test_triton_twin_appends_the_same_bytes(
    seq: int, head_dim: int, dtype: torch.dtype, device: str, twin: Callable[..., Callable[..., object]]
) -> None:
    _, k, v = inputs(device, dtype, (1, seq), head_dim=head_dim, batch=4)
    k[0, 0, 0] = 0
    k[1, 0, 0, 3] = torch.nan
    v[1, 1, 0, 5] = torch.inf
    _, old_k, old_v = inputs(device, dtype, (1, 60), head_dim=head_dim, batch=4)
    ours = quantized(old_k, old_v)
    theirs = tuple(part.clone() for part in ours)
    lengths = lengths_on(device, seq, 60, 5, 70)  # the third has no place for its first ones, the fourth for its last
    kernels.int8_kv_append(k, v, *ours, lengths)
    if device == "cpu":  # the interpreter is another process: what it writes to comes back only through shared memory
        for tensor in (k, v, *theirs, lengths):
            tensor.share_memory_()
    assert twin("int8_kv_append")(k, v, *theirs, lengths) is None
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(other.nan_to_num(-1.0), mine.nan_to_num(-1.0))


def test_a_cuda_graph_stays_right_as_sequences_grow(cuda: str) -> None:
    q, k, v = inputs(cuda, torch.float16, (1, 1000), heads=(8, 2))
    cache = quantized(k, v)
    lengths = lengths_on(cuda, 1, 1)
    kernels.int8_decode_attention(q, *cache, lengths)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernels.int8_kv_append(k[:, :, :1], v[:, :, :1], *cache, lengths)
        out = kernels.int8_decode_attention(q, *cache, lengths)
    for length in (1, 33, 1000):
        lengths.fill_(length)
        graph.replay()
        assert_attends(out, expected(q, cache, lengths))
