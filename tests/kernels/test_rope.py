"""rope against float64: edges of its pieces and blocks, free strides, and what it says of wrong input."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from perf_suite.benchmarks.rope import rope as reference
from warpwatch import kernels

from .triton_compiler import compile_for

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
SHAPES = [
    (1, 1, 1, 2),  # one pair
    (2, 3, 5, 10),  # no 16-byte piece fits
    (1, 4, 7, 16),  # one piece of fp16 in each half
    (2, 5, 33, 64),  # heads and positions that fill no group
    (1, 6, 40, 96),  # pieces that do not divide a block of threads
    (2, 3, 9, 256),  # a row of fp16 is a warp
    (3, 7, 1, 128),  # decoding: one position
    (1, 1, 3, 6000),  # a row longer than a block of threads, by pairs
    (1, 2, 2, 16384),  # and by pieces
]


def tables(seq: int, head_dim: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    angles = torch.randn(seq, head_dim // 2, device=device) * 7
    return angles.cos(), angles.sin()


def assert_turned(out: torch.Tensor, expected: torch.Tensor) -> None:
    # One rounding to the dtype; the interpreter truncates to bfloat16, hence a whole unit and not half of one.
    # a cos - b sin may cancel: what fp32 leaves then is small against |a| + |b|, some 8 here, not against the result.
    torch.testing.assert_close(out.double(), expected, rtol=torch.finfo(out.dtype).eps, atol=8 * 2.0**-22)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_turns_each_pair_by_its_positions_angle(
    shape: tuple[int, ...], dtype: torch.dtype, interleaved: bool, device: str
) -> None:
    x = torch.randn(shape, dtype=dtype, device=device)
    cos, sin = tables(shape[2], shape[3], device)
    out = kernels.rope(x, cos, sin, interleaved=interleaved)
    assert out.dtype == dtype
    assert out.is_contiguous()
    assert_turned(out, reference(x, cos, sin, interleaved))


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("head_dim", [128, 96])
@pytest.mark.parametrize("seq", [64, 63])
def test_threads_that_share_cos_and_sin_among_heads_agree(
    seq: int, head_dim: int, dtype: torch.dtype, interleaved: bool, device: str
) -> None:
    # Enough work for several heads a thread on the GPU, of which they are no multiple; of 63 positions the rows of a
    # warp are of different groups of heads.
    x = torch.randn(16, 37, seq, head_dim, dtype=dtype, device=device)
    cos, sin = tables(seq, head_dim, device)
    assert_turned(kernels.rope(x, cos, sin, interleaved=interleaved), reference(x, cos, sin, interleaved))


STRIDED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "batch, seq, heads, head_dim": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "rows with room between them": lambda x: torch.cat((x, x), dim=-1)[..., : x.shape[-1]],
    "rows at odd addresses": lambda x: torch.cat((x, x[..., :1]), dim=-1)[..., 1:],
    "begins at an odd address": lambda x: torch.cat((x[:1].flatten()[:1], x.flatten()))[1:].view(x.shape),
    "one head seen by all": lambda x: x[:, :1].expand(x.shape),
    "every other position": lambda x: x.repeat_interleave(2, dim=2)[:, :, ::2],
}


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("layout", STRIDED)
def test_strides_other_than_the_last_are_free(layout: str, interleaved: bool, device: str) -> None:
    x = STRIDED[layout](torch.randn(2, 5, 9, 64, dtype=torch.float16, device=device))
    cos, sin = tables(9, 64, device)
    out = kernels.rope(x, cos, sin, interleaved=interleaved)
    assert out.is_contiguous()
    assert_turned(out, reference(x, cos, sin, interleaved))


@pytest.mark.parametrize("width", [64, 63], ids=["aligned tables", "tables at odd addresses"])
def test_cos_and_sin_may_be_cut_from_wider_tables(width: int, device: str) -> None:
    x = torch.randn(2, 5, 9, 64, dtype=torch.float16, device=device)
    cos, sin = (torch.randn(20, width, device=device)[11:, :32] for _ in range(2))
    assert_turned(kernels.rope(x, cos, sin), reference(x, cos, sin))


@pytest.mark.parametrize("shape", [(0, 3, 5, 8), (2, 0, 5, 8), (2, 3, 0, 8), (2, 3, 5, 0)], ids=str)
def test_nothing_to_turn_gives_an_empty_tensor(shape: tuple[int, ...], device: str) -> None:
    x = torch.empty(shape, device=device)
    cos, sin = tables(shape[2], shape[3], device)
    assert kernels.rope(x, cos, sin).shape == shape


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, (16, 37, 64, 128)], ids=str)
def test_in_place_it_leaves_in_x_what_it_would_have_returned(
    shape: tuple[int, ...], dtype: torch.dtype, interleaved: bool, device: str
) -> None:
    x = torch.randn(shape, dtype=dtype, device=device)
    cos, sin = tables(shape[2], shape[3], device)
    expected = kernels.rope(x, cos, sin, interleaved=interleaved)
    assert kernels.rope_(x, cos, sin, interleaved=interleaved) is None
    assert torch.equal(x, expected)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("layout", [name for name in STRIDED if name != "one head seen by all"])
def test_in_place_what_lies_between_the_rows_stays(layout: str, interleaved: bool, device: str) -> None:
    x = STRIDED[layout](torch.randn(2, 5, 9, 64, dtype=torch.float16, device=device))
    whole = torch.empty(0, dtype=x.dtype, device=device).set_(x.untyped_storage())
    before = whole.clone()
    places = torch.arange(whole.numel(), device=device).as_strided(x.size(), x.stride(), x.storage_offset()).flatten()
    cos, sin = tables(9, 64, device)
    before[places] = kernels.rope(x, cos, sin, interleaved=interleaved).flatten()
    kernels.rope_(x, cos, sin, interleaved=interleaved)
    assert torch.equal(whole, before)


def test_in_place_it_refuses_an_expanded_tensor(device: str) -> None:
    x = torch.zeros(2, 1, 5, 8, device=device).expand(2, 3, 5, 8)
    with pytest.raises(RuntimeError, match="rope_: x must not be expanded, for it is written to; got strides"):
        kernels.rope_(x, *tables(5, 8, device))


def test_in_place_it_is_a_well_behaved_operator(device: str) -> None:
    x = torch.randn(2, 5, 3, 16, device=device).transpose(1, 2)
    torch.library.opcheck(torch.ops.warpwatch.rope_.default, (x, *tables(5, 16, device), True), raise_exception=True)


def test_leaves_its_input_alone(device: str) -> None:
    x = torch.randn(1, 2, 3, 16, device=device)
    before = x.clone()
    kernels.rope(x, *tables(3, 16, device))
    assert torch.equal(x, before)


Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
REFUSED: dict[str, Callable[[torch.Tensor, torch.Tensor], Tensors]] = {
    "rope: x must have 4 dimensions (batch, heads, seq, head_dim), got shape [3, 5, 8]": lambda x, t: (x[0], t, t),
    "rope: x must be float16, bfloat16 or float32, got int64": lambda x, t: (x.long(), t, t),
    "rope: head_dim must be even, got x of shape [2, 3, 5, 7]": lambda x, t: (x[..., :7], t, t),
    "rope: the last dimension of x must be contiguous (stride 1), got strides [120, 40, 8, 2] for shape [2, 3, 5, 4]": (
        lambda x, t: (x[..., ::2], t, t)
    ),
    "rope: cos must have shape [5, 4] (seq, head_dim / 2), got [4, 4]": lambda x, t: (x, t[:4], t),
    "rope: sin must have shape [5, 4] (seq, head_dim / 2), got [5, 8]": lambda x, t: (x, t, t.repeat(1, 2)),
    "rope: cos must have 2 dimensions (seq, head_dim / 2), got shape [1, 5, 4]": lambda x, t: (x, t[None], t),
    "rope: sin must be float32, got float16": lambda x, t: (x, t, t.half()),
    "rope: the last dimension of cos must be contiguous (stride 1), got strides [1, 5] for shape [5, 4]": (
        lambda x, t: (x, t.t().contiguous().t(), t)
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_errors_state_what_was_passed_and_what_is_expected(sentence: str, device: str) -> None:
    x, cos, sin = REFUSED[sentence](torch.zeros(2, 3, 5, 8, device=device), torch.zeros(5, 4, device=device))
    with pytest.raises(RuntimeError) as refusal:
        kernels.rope(x, cos, sin)
    assert str(refusal.value).splitlines()[0] == sentence


def test_says_which_tensor_is_on_which_device(cuda: str) -> None:
    with pytest.raises(RuntimeError, match="rope: x and cos must be on one device: x is on cuda:0, cos on cpu"):
        kernels.rope(torch.zeros(2, 3, 5, 8, device=cuda), *tables(5, 8, "cpu"))


@pytest.mark.parametrize("interleaved", [False, True])
def test_is_a_well_behaved_operator(interleaved: bool, device: str) -> None:
    x = torch.randn(2, 3, 5, 16, dtype=torch.float16, device=device)
    transposed = torch.randn(2, 5, 3, 16, device=device).transpose(1, 2)
    for each in (x, transposed):
        torch.library.opcheck(
            torch.ops.warpwatch.rope.default, (each, *tables(5, 16, device), interleaved), raise_exception=True
        )


def test_compiles_without_graph_breaks(device: str) -> None:
    cos, sin = tables(5, 16, device)

    @torch.compile(fullgraph=True)
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return kernels.rope(x, cos, sin, interleaved=True) * 2

    x = torch.randn(2, 3, 5, 16, device=device)
    assert torch.equal(doubled(x), kernels.rope(x, cos, sin, interleaved=True) * 2)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES[:7], ids=str)
def test_triton_twin_agrees(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    interleaved: bool,
    device: str,
    twin: Callable[[str], Callable[..., torch.Tensor]],
) -> None:
    x = torch.randn(shape, dtype=dtype, device=device)
    x = x.transpose(1, 2).contiguous().transpose(1, 2)
    cos, sin = tables(shape[2], shape[3], device)
    assert_turned(twin("rope")(x, cos, sin, interleaved=interleaved), reference(x, cos, sin, interleaved))


@pytest.mark.parametrize(
    ("compute_capability", "computed", "interleaved", "aligned"),
    [
        *((each, False, True, True) for each in (75, 80, 90, 120)),
        *((each, True, False, True) for each in (75, 80, 90, 120)),
        (90, False, True, False),
    ],
)
def test_triton_twin_compiles_for_gpus_that_are_not_here(
    compute_capability: int, computed: bool, interleaved: bool, aligned: bool
) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    from warpwatch.kernels.triton.rope import _rope

    angles = "*i64" if computed else "*fp32"
    types = {"x_ptr": "*bf16", "cos_ptr": angles, "sin_ptr": angles, "out_ptr": "*bf16"}
    constants = {"COMPUTED": computed, "INTERLEAVED": interleaved, "HEADS": 4, "BLOCK_SEQ": 32, "BLOCK_HALF": 64}
    lengths = ("n_heads", "n_half")
    compiled = compile_for(compute_capability, _rope, types, constants, lengths=lengths, aligned=aligned, num_warps=4)
    assert compiled.asm["cubin"]


def test_replays_from_a_cuda_graph(cuda: str) -> None:
    x = torch.randn(2, 8, 64, 128, dtype=torch.float16, device=cuda)
    cos, sin = tables(64, 128, cuda)
    kernels.rope(x, cos, sin)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = kernels.rope(x, cos, sin)
    x.copy_(torch.randn_like(x))
    graph.replay()
    assert_turned(out, reference(x, cos, sin))


def test_runs_on_the_current_stream(cuda: str) -> None:
    x = torch.zeros(4, 32, 512, 128, dtype=torch.float16, device=cuda)
    cos, sin = tables(512, 128, cuda)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)  # some 10 ms: a launch on another stream would read the zeros
        x.fill_(1)
        out = kernels.rope(x, cos, sin)
    stream.synchronize()
    assert_turned(out, reference(x, cos, sin))


def test_offsets_beyond_32_bits(cuda: str) -> None:
    shape = (1, 520, 32768, 128)  # 2.2e9 elements
    if torch.cuda.mem_get_info()[0] < 12 * 2**30:
        pytest.skip("needs 12 GiB of free GPU memory")
    x = torch.empty(shape, dtype=torch.float16, device=cuda)
    x[:, -1].normal_()
    cos, sin = tables(shape[2], shape[3], cuda)
    assert_turned(kernels.rope(x, cos, sin)[:, -1:], reference(x[:, -1:], cos, sin))
