"""paged_decode_attention, paged_kv_append and paged_kv_gather: the same numbers wherever the pages lie."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest
import torch

from perf_suite.benchmarks.decode_attention import decode_attention as reference
from perf_suite.benchmarks.paged_kv_gather import paged_kv_gather as gather_reference
from warpwatch import kernels

from .test_flash_attention import DTYPES, assert_attends, inputs

Paged = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # k_pages, v_pages, block_table
PAGE_SIZES = [16, 32, 64, 128, 256]


def paged(k: torch.Tensor, v: torch.Tensor, page_size: int) -> Paged:
    """k and v (batch, heads, capacity, head_dim) in pages at random places, NaN where there is no key."""
    batch, heads, capacity, head_dim = k.shape
    each = -(-capacity // page_size)
    table = torch.randperm(batch * each + 3, device=k.device)[: batch * each].view(batch, each)
    pages = []
    for x in (k, v):
        padded = x.new_full((batch, heads, each * page_size, head_dim), torch.nan)
        padded[:, :, :capacity] = x
        of_all = x.new_full((batch * each + 3, heads, page_size, head_dim), torch.nan)
        of_all[table] = padded.view(batch, heads, each, page_size, head_dim).transpose(1, 2)
        pages.append(of_all)
    return pages[0], pages[1], table.int()


def lengths_on(device: str, *lengths: int) -> torch.Tensor:
    return torch.tensor(lengths, dtype=torch.int32, device=device)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("tokens", [1, 4])
def test_agrees_with_float64_wherever_the_pages_lie(
    tokens: int, dtype: torch.dtype, page_size: int, device: str
) -> None:
    q, k, v = inputs(device, dtype, (tokens, 700), heads=(8, 2), batch=6)
    pages = paged(k, v, page_size)
    lengths = lengths_on(device, 0, 1, 17, 256, 699, 700)
    out = kernels.paged_decode_attention(q, *pages, lengths)
    assert out.dtype == dtype
    assert_attends(out, reference(q, k, v, lengths))


@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("heads", [(4, 4), (24, 1)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gives_the_contiguous_operators_bits(
    dtype: torch.dtype, heads: tuple[int, int], head_dim: int, device: str
) -> None:
    q, k, v = inputs(device, dtype, (2, 512), heads=heads, head_dim=head_dim)
    lengths = lengths_on(device, 300, 512)
    out = kernels.paged_decode_attention(q, *paged(k, v, 64), lengths)
    assert torch.equal(out, kernels.decode_attention(q, k, v, lengths))


def test_pages_of_one_tensor_and_entries_that_are_not_used(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (1, 300), heads=(4, 2))
    k_pages, v_pages, table = paged(k, v, 32)
    both = torch.stack((k_pages, v_pages), dim=1)  # (pages, 2, heads, page_size, head_dim)
    lengths = lengths_on(device, 65, 300)
    table[0, 3:] = 2**31 - 1  # 65 keys are on three pages
    out = kernels.paged_decode_attention(q, both[:, 0], both[:, 1], table, lengths)
    assert_attends(out, reference(q, k, v, lengths))


@pytest.mark.parametrize("page_size", [16, 128])
def test_append_and_gather_round_trip(page_size: int, device: str) -> None:
    _, k, v = inputs(device, torch.float16, (1, 300), heads=(2, 2), batch=3)
    k_pages, v_pages, table = paged(torch.zeros_like(k), torch.zeros_like(v), page_size)
    before = k_pages.clone()
    lengths = lengths_on(device, 300, 7, 150)
    new_k, new_v = k[:, :, :9], v[:, :, :9]
    kernels.paged_kv_append(new_k, new_v, k_pages, v_pages, table, lengths)
    for pages, rows, gathered in zip(
        (k_pages, v_pages),
        (new_k, new_v),
        kernels.paged_kv_gather(k_pages, v_pages, table, lengths, 300),
        strict=True,
    ):
        assert gathered.is_contiguous()
        for b, length in enumerate((300, 7, 150)):
            kept = min(length, 9)
            assert torch.equal(gathered[b, :, length - kept : length], rows[b, :, 9 - kept :])
            assert not gathered[b, :, : length - kept].any()
            assert not gathered[b, :, length:].any()
        assert pages.shape == before.shape
    unused = torch.ones(len(k_pages), dtype=torch.bool, device=device)
    unused[table.flatten().long()] = False
    assert k_pages[unused].isnan().all()


def test_append_leaves_out_what_has_no_place(device: str) -> None:
    _, k, v = inputs(device, torch.float32, (1, 5), heads=(2, 2))
    room = torch.zeros(2, 2, 32, 64, device=device)
    k_pages, v_pages, table = paged(room, room, 16)
    before = k_pages.clone()
    kernels.paged_kv_append(k, v, k_pages, v_pages, table, lengths_on(device, 34, 0))
    gathered, _ = kernels.paged_kv_gather(k_pages, v_pages, table, lengths_on(device, 34, 0), 32)
    assert torch.equal(gathered[0, :, 29:], k[0, :, :3])  # positions 29 .. 33, of which 32 and 33 have no page
    of_the_empty = table[1].long()
    assert torch.equal(k_pages[of_the_empty], before[of_the_empty])


def test_what_was_appended_is_attended(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (1, 40), heads=(4, 2))
    k_pages, v_pages, table = paged(k, v, 16)
    k_pages.fill_(torch.nan)
    v_pages.fill_(torch.nan)
    for step in range(40):
        lengths = lengths_on(device, step + 1, step + 1)
        kernels.paged_kv_append(k[:, :, step : step + 1], v[:, :, step : step + 1], k_pages, v_pages, table, lengths)
    out = kernels.paged_decode_attention(q, k_pages, v_pages, table, lengths)
    assert_attends(out, reference(q, k, v, lengths))


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(RuntimeError) as refused:
        call()
    return str(refused.value).splitlines()[0]


def test_errors_state_what_was_passed_and_what_is_expected(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (1, 40), heads=(4, 2))
    pages, _, table = paged(k, v, 16)
    lengths = lengths_on(device, 40, 40)
    attention, append, gather = kernels.paged_decode_attention, kernels.paged_kv_append, kernels.paged_kv_gather
    said = {
        "paged_decode_attention: page_size must be 16, 32, 64, 128 or 256, got k_pages of shape [9, 2, 8, 64]": (
            lambda: attention(q, pages[:, :, :8], pages[:, :, :8], table, lengths)
        ),
        "paged_decode_attention: block_table must be int32, got int64": (
            lambda: attention(q, pages, pages, table.long(), lengths)
        ),
        "paged_decode_attention: q and block_table differ in batch: [2, 4, 1, 64] against [1, 3]": (
            lambda: attention(q, pages, pages, table[:1], lengths)
        ),
        "paged_decode_attention: lengths must have shape [2] (batch), got [1]": (
            lambda: attention(q, pages, pages, table, lengths[:1])
        ),
        "paged_kv_append: k and k_pages differ in heads_kv or head_dim: [2, 1, 40, 64] against [9, 2, 16, 64]": (
            lambda: append(k[:, :1], v[:, :1], pages, pages, table, lengths)
        ),
        "paged_kv_append: v_pages must not be expanded, for it is written to; got strides [0, 1024, 64, 1]": (
            lambda: append(k, v, pages, pages[:1].expand(pages.shape), table, lengths)
        ),
        "paged_kv_gather: seq must be 0 to 48, the keys that block_table has room for, got 49": (
            lambda: gather(pages, pages, table, lengths, 49)
        ),
    }
    for sentence, call in said.items():
        assert refusal(call) == sentence


def test_the_cpu_refuses_pages_that_there_are_not() -> None:
    q, k, v = inputs("cpu", torch.float16, (1, 40), heads=(4, 2))
    pages, _, table = paged(k, v, 16)
    table[1, 2] = 9
    lengths = lengths_on("cpu", 40, 40)
    assert refusal(lambda: kernels.paged_decode_attention(q, pages, pages, table, lengths)) == (
        "paged_decode_attention: block_table[1, 2] is 9, but of 9 pages the last is 8"
    )
    assert refusal(lambda: kernels.paged_kv_gather(pages, pages, table, lengths, 40)) == (
        "paged_kv_gather: block_table[1, 2] is 9, but of 9 pages the last is 8"
    )
    kernels.paged_decode_attention(q, pages, pages, table, lengths_on("cpu", 40, 32))


def test_are_well_behaved_operators(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (1, 40), heads=(4, 2))
    k_pages, v_pages, table = paged(k, v, 16)
    k_pages, v_pages = k_pages.nan_to_num(), v_pages.nan_to_num()
    lengths = lengths_on(device, 40, 17)
    of = torch.ops.warpwatch
    torch.library.opcheck(of.paged_decode_attention.default, (q, k_pages, v_pages, table, lengths, None))
    torch.library.opcheck(of.paged_kv_append.default, (k[:, :, :3], v[:, :, :3], k_pages, v_pages, table, lengths))
    torch.library.opcheck(of.paged_kv_gather.default, (k_pages, v_pages, table, lengths, 40))


def test_compile_without_graph_breaks(device: str) -> None:
    def step(q, k, v, k_pages, v_pages, table, lengths):  # type: ignore[no-untyped-def]
        kernels.paged_kv_append(k, v, k_pages, v_pages, table, lengths)
        return kernels.paged_decode_attention(q, k_pages, v_pages, table, lengths) * 2

    q, k, v = inputs(device, torch.float16, (1, 40), heads=(4, 2))
    pages = paged(k, v, 16)
    others = tuple(x.clone() for x in pages)
    new = torch.randn_like(k[:, :, :1])
    lengths = lengths_on(device, 40, 17)
    out = torch.compile(step, fullgraph=True)(q, new, new, *pages, lengths)
    assert torch.equal(out, step(q, new, new, *others, lengths))
    assert torch.equal(pages[0].nan_to_num(), others[0].nan_to_num())


@pytest.mark.parametrize("page_size", [16, 64])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_triton_twin_agrees(
    dtype: torch.dtype, page_size: int, device: str, twin: Callable[[str], Callable[..., torch.Tensor]]
) -> None:
    if device == "cpu" and numpy.lib.NumpyVersion(numpy.__version__) >= "2.4.0":
        pytest.skip("Triton 3.6's interpreter makes loop bounds in a way that NumPy refuses from 2.4 on")
    q, k, v = inputs(device, dtype, (2, 300), heads=(4, 2), batch=3)
    lengths = lengths_on(device, 0, 77, 300)
    out = twin("paged_decode_attention")(q, *paged(k, v, page_size), lengths)
    assert_attends(out, reference(q, k, v, lengths))


@pytest.mark.parametrize("page_size", [16, 64])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_triton_twin_appends_the_same_bytes(
    dtype: torch.dtype, page_size: int, device: str, twin: Callable[..., Callable[..., object]]
) -> None:
    _, k, v = inputs(device, dtype, (1, 150), heads=(2, 2), batch=3)
    k_pages, v_pages, table = paged(torch.zeros_like(k), torch.zeros_like(v), page_size)
    new_k, new_v = k[:, :, 20:90], v[:, :, 20:90].transpose(1, 2).contiguous().transpose(1, 2)
    lengths = lengths_on(device, 150, 7, 70)  # of the second sequence, 63 rows have no place
    ours = k_pages.clone(), v_pages.clone()
    kernels.paged_kv_append(new_k, new_v, *ours, table, lengths)
    call = (new_k, new_v, k_pages, v_pages, table, lengths)
    if device == "cpu":  # the interpreter is another process: what it writes to comes back only through shared memory
        for tensor in call:
            tensor.share_memory_()
    assert twin("paged_kv_append")(*call) is None
    for mine, theirs in zip(ours, (k_pages, v_pages), strict=True):
        torch.testing.assert_close(theirs, mine, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("page_size", [16, 64])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_triton_twin_gathers_the_same_bytes(
    dtype: torch.dtype, page_size: int, device: str, twin: Callable[..., Callable[..., tuple[torch.Tensor, ...]]]
) -> None:
    _, k, v = inputs(device, dtype, (1, 150), heads=(2, 2), batch=3, head_dim=80)
    pages = paged(k, v, page_size)
    lengths = lengths_on(device, 150, 7, 0)
    for theirs, ours in zip(
        twin("paged_kv_gather")(*pages, lengths, 133),
        kernels.paged_kv_gather(*pages, lengths, 133),
        strict=True,
    ):
        assert torch.equal(theirs, ours)


@pytest.mark.parametrize("seq", [0, 1, 17, 1000, 4097])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gather_agrees_with_its_reference(dtype: torch.dtype, seq: int, device: str) -> None:
    _, k, v = inputs(device, dtype, (1, 4100), heads=(3, 3), batch=2, head_dim=80)
    pages = paged(k, v, 32)
    lengths = lengths_on(device, 4100, 16)
    for out, expected in zip(
        kernels.paged_kv_gather(*pages, lengths, seq), gather_reference(*pages, lengths, seq), strict=True
    ):
        assert torch.equal(out.double(), expected)


def test_a_cuda_graph_stays_right_as_sequences_grow(cuda: str) -> None:
    q, k, v = inputs(cuda, torch.float16, (1, 1000), heads=(8, 2))
    pages = paged(k, v, 32)
    lengths = lengths_on(cuda, 1, 1)
    kernels.paged_decode_attention(q, *pages, lengths)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = kernels.paged_decode_attention(q, *pages, lengths)
    for length in (1, 33, 1000):
        lengths.fill_(length)
        graph.replay()
        assert_attends(out, reference(q, k, v, lengths))
