"""rope_paged_kv_append against rope, then paged_kv_append: every byte of the pages."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from warpwatch import kernels

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
SHAPES = [  # batch, heads, seq, head_dim, page size, pages of a sequence
    (1, 1, 1, 16, 16, 1),
    (3, 2, 1, 128, 64, 3),  # decoding
    (2, 3, 17, 64, 16, 4),  # a page's edge within the new rows
    (1, 2, 33, 256, 32, 3),
    (2, 1, 5, 4112, 16, 1),  # a row longer than a block
    (2, 8, 1000, 128, 128, 9),
    (1, 2, 4097, 80, 256, 17),
]
Call = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def call_of(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> Call:
    """k, v as their projection leaves them, pages full of another sequence's numbers, the table, the lengths."""
    batch, heads, seq, head_dim, page_size, each = shape
    k, v = (torch.randn(batch, seq, heads, head_dim, dtype=dtype, device=device).transpose(1, 2) for _ in range(2))
    pages = torch.randn(2, batch * each + 2, heads, page_size, head_dim, dtype=dtype, device=device)
    table = torch.randperm(batch * each + 2, device=device)[: batch * each].view(batch, each).int()
    lengths = torch.randint(seq, page_size * each + 1, (batch,), device=device).int()
    lengths[0] = page_size * each  # the last place there is
    return k, v, pages[0], pages[1], table, lengths


def tables_of(call: Call, base: float = 10000.0) -> tuple[torch.Tensor, torch.Tensor]:
    half = call[0].shape[3] // 2
    positions = torch.arange(call[2].shape[2] * call[4].shape[1], dtype=torch.float64)
    angles = positions[:, None] * base ** (-torch.arange(half, dtype=torch.float64) / half)
    return angles.cos().float().to(call[0].device), angles.sin().float().to(call[0].device)


def one_after_the_other(call: Call, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> list[torch.Tensor]:
    """Both pages as rope of each sequence and paged_kv_append leave them. Rows before position 0 have no place."""
    k, v, k_pages, v_pages, table, lengths = call
    turned = k.new_empty(k.shape)
    for b, length in enumerate(lengths.tolist()):
        places = torch.arange(length - k.shape[2], length, device=k.device).clamp(0, len(cos) - 1)
        turned[b] = kernels.rope(k[b : b + 1], cos[places], sin[places], interleaved=interleaved)[0]
    pages = [k_pages.clone(), v_pages.clone()]
    kernels.paged_kv_append(turned, v, *pages, table, lengths)
    return pages


def of_computed(call: Call, base: float, interleaved: bool) -> list[torch.Tensor]:
    k, v, k_pages, v_pages, table, lengths = call
    turned = kernels.rope_computed(k, lengths.long() - k.shape[2], base=base, interleaved=interleaved)
    pages = [k_pages.clone(), v_pages.clone()]
    kernels.paged_kv_append(turned, v, *pages, table, lengths)
    return pages


def assert_within_one_rounding(keys: torch.Tensor, expected: torch.Tensor) -> None:
    """An fp32 sum of two products may be contracted otherwise in another kernel; atol is for what cancels."""
    torch.testing.assert_close(keys, expected, rtol=torch.finfo(keys.dtype).eps, atol=8 * 2.0**-22)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_is_rope_and_then_append(shape: tuple[int, ...], dtype: torch.dtype, interleaved: bool, device: str) -> None:
    call = call_of(shape, dtype, device)
    before = [x.clone() for x in (call[0], call[1])]
    cos, sin = tables_of(call)
    k_pages, v_pages = one_after_the_other(call, cos, sin, interleaved)
    assert kernels.rope_paged_kv_append(*call, cos, sin, interleaved=interleaved) is None
    assert_within_one_rounding(call[2], k_pages)
    assert torch.equal(call[3], v_pages)
    assert all(torch.equal(now, then) for now, then in zip(call[:2], before, strict=True))


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[3] <= 512], ids=str)
def test_computed_is_rope_computed_and_then_append(
    shape: tuple[int, ...], dtype: torch.dtype, interleaved: bool, device: str
) -> None:
    call = call_of(shape, dtype, device)
    k_pages, v_pages = of_computed(call, 500000.0, interleaved)
    assert kernels.rope_computed_paged_kv_append(*call, base=500000.0, interleaved=interleaved) is None
    assert_within_one_rounding(call[2], k_pages)
    assert torch.equal(call[3], v_pages)


@pytest.mark.parametrize("computed", [False, True])
def test_leaves_out_what_has_no_place(computed: bool, device: str) -> None:
    call = call_of((3, 2, 9, 64, 16, 2), torch.float16, device)
    call[5].copy_(torch.tensor([36, 3, 0]))  # four rows behind the last page, six before position 0, all before it
    cos, sin = tables_of(call)
    if computed:
        k_pages, v_pages = of_computed(call, 10000.0, False)
        kernels.rope_computed_paged_kv_append(*call)
    else:
        k_pages, v_pages = one_after_the_other(call, cos, sin, False)
        kernels.rope_paged_kv_append(*call, cos, sin)
    assert_within_one_rounding(call[2], k_pages)
    assert torch.equal(call[3], v_pages)


def test_pages_of_one_tensor_and_strided_tables(device: str) -> None:
    k, v, k_pages, v_pages, table, lengths = call_of((2, 3, 17, 64, 16, 4), torch.float16, device)
    both = torch.stack((k_pages, v_pages), dim=1)  # (pages, 2, heads, page size, head_dim)
    call = (k, v, both[:, 0], both[:, 1], table, lengths)
    cos, sin = torch.stack(tables_of(call), dim=1).unbind(1)
    expected = one_after_the_other(call, cos, sin, True)
    kernels.rope_paged_kv_append(*call, cos, sin, interleaved=True)
    assert_within_one_rounding(both[:, 0], expected[0])
    assert torch.equal(both[:, 1], expected[1])


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(RuntimeError) as refused:
        call()
    return str(refused.value).splitlines()[0]


def test_errors_state_what_was_passed_and_what_is_expected(device: str) -> None:
    call = call_of((2, 3, 5, 64, 16, 4), torch.float16, device)
    cos, sin = tables_of(call)
    append, computed = kernels.rope_paged_kv_append, kernels.rope_computed_paged_kv_append
    said = {
        "rope_paged_kv_append: cos must have a row for each of the 64 positions that block_table has room for, got "
        "shape [63, 32]": lambda: append(*call, cos[:63], sin),
        "rope_paged_kv_append: sin must have shape [64, 32] (positions, head_dim / 2), got [64, 31]": (
            lambda: append(*call, cos, sin[:, :31])
        ),
        "rope_paged_kv_append: cos must be float32, got float64": lambda: append(*call, cos.double(), sin),
        "rope_paged_kv_append: head_dim must be even, got k of shape [2, 3, 5, 63]": (
            lambda: append(*(x[..., :63] for x in call[:4]), *call[4:], cos, sin)
        ),
        "rope_paged_kv_append: lengths must be int32, got int64": lambda: append(*call[:5], call[5].long(), cos, sin),
        "rope_paged_kv_append: k_pages must not be expanded, for it is written to; got strides [0, 1024, 64, 1]": (
            lambda: append(*call[:2], call[2][:1].expand(call[2].shape), *call[3:], cos, sin)
        ),
        "rope_computed_paged_kv_append: base must be 1 or more, got 0.5": lambda: computed(*call, base=0.5),
        "rope_computed_paged_kv_append: head_dim may be 512 at most, got k of shape [1, 1, 1, 520]": (
            lambda: computed(*call_of((1, 1, 1, 520, 16, 1), torch.float16, device))
        ),
    }
    for sentence, refused in said.items():
        assert refusal(refused) == sentence


def test_the_gpu_requires_pieces_of_16_bytes(cuda: str) -> None:
    call = call_of((1, 1, 1, 24, 16, 1), torch.float16, cuda)
    cos, sin = tables_of(call)
    assert refusal(lambda: kernels.rope_paged_kv_append(*call, cos, sin)) == (
        "rope_paged_kv_append: half a row of k must be whole 16-byte pieces, got shape [1, 1, 1, 24]"
    )
    call = call_of((1, 1, 1, 32, 16, 1), torch.float16, cuda)
    cos, sin = (torch.cat((x, x[:, :1]), dim=1)[:, 1:] for x in tables_of(call))
    assert refusal(lambda: kernels.rope_paged_kv_append(*call, cos, sin)) == (
        "rope_paged_kv_append: each row of cos and sin must start on a 16-byte boundary"
    )


def test_the_cpu_refuses_pages_that_there_are_not() -> None:
    call = call_of((2, 3, 5, 64, 16, 4), torch.float16, "cpu")
    call[4][0, 3] = 10
    assert refusal(lambda: kernels.rope_computed_paged_kv_append(*call)) == (
        "rope_computed_paged_kv_append: block_table[0, 3] is 10, but of 10 pages the last is 9"
    )


def test_are_well_behaved_operators(device: str) -> None:
    call = call_of((2, 3, 5, 64, 16, 4), torch.float16, device)
    cos, sin = tables_of(call)
    of = torch.ops.warpwatch
    torch.library.opcheck(of.rope_paged_kv_append.default, (*call, cos, sin, True))
    torch.library.opcheck(of.rope_computed_paged_kv_append.default, (*call, 500000.0, False))


def test_compile_without_graph_breaks(device: str) -> None:
    def step(k, v, k_pages, v_pages, table, lengths, cos, sin):  # type: ignore[no-untyped-def]
        kernels.rope_paged_kv_append(k, v, k_pages, v_pages, table, lengths, cos, sin)
        kernels.rope_computed_paged_kv_append(v, k, k_pages, v_pages, table, lengths - 5)
        return k_pages * 2

    call = call_of((2, 3, 5, 64, 16, 4), torch.float16, device)
    cos, sin = tables_of(call)
    others = tuple(x.clone() for x in call)
    out = torch.compile(step, fullgraph=True)(*call, cos, sin)
    assert torch.equal(out, step(*others, cos, sin))
    assert torch.equal(call[2], others[2])


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_triton_twin_agrees(
    dtype: torch.dtype, computed: bool, interleaved: bool, device: str, twin: Callable[..., Callable[..., object]]
) -> None:
    call = call_of((2, 3, 41, 80, 16, 4), dtype, device)
    call[5].copy_(torch.tensor([70, 5]))  # some rows behind the last page, others before position 0
    cos, sin = tables_of(call, 10000.0)
    ours = [x.clone() for x in call[2:4]]
    kernels.rope_paged_kv_append(call[0], call[1], *ours, *call[4:], cos, sin, interleaved=interleaved)
    if device == "cpu":  # the interpreter is another process: what it writes to comes back only through shared memory
        for tensor in call:
            tensor.share_memory_()
    if computed:
        twin("rope_paged_kv_append", "rope_computed_paged_kv_append")(*call, interleaved=interleaved)
    else:
        twin("rope_paged_kv_append")(*call, cos, sin, interleaved=interleaved)
    assert_within_one_rounding(call[2], ours[0])
    assert torch.equal(call[3], ours[1])


def test_a_cuda_graph_stays_right_as_sequences_grow(cuda: str) -> None:
    call = call_of((2, 8, 1, 128, 32, 8), torch.float16, cuda)
    cos, sin = tables_of(call)
    kernels.rope_paged_kv_append(*call, cos, sin)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernels.rope_paged_kv_append(*call, cos, sin)
    for length in (1, 33, 256):
        call[5].fill_(length)
        call[0].normal_()
        expected = one_after_the_other(call, cos, sin, False)
        graph.replay()
        assert_within_one_rounding(call[2], expected[0])
        assert torch.equal(call[3], expected[1])
