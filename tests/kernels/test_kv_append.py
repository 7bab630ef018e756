"""kv_append against assignments in PyTorch: every byte of the caches, at the edges of blocks and of the cache."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from warpwatch import kernels

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
SHAPES = [  # batch, heads, tokens, capacity, head_dim
    (1, 1, 1, 1, 1),
    (3, 2, 1, 16, 128),  # decoding
    (2, 3, 5, 9, 17),  # no 16-byte piece fits
    (2, 2, 33, 40, 64),  # a block more than full
    (1, 2, 70, 70, 8),  # the whole cache
    (2, 1, 3, 8, 4104),  # a row longer than a block
    (64, 8, 1, 32, 128),
]
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def call_of(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> Tensors:
    batch, heads, tokens, capacity, head_dim = shape
    caches = (torch.randn(batch, heads, capacity, head_dim, dtype=dtype, device=device) for _ in range(2))
    new = (torch.randn(batch, heads, tokens, head_dim, dtype=dtype, device=device) for _ in range(2))
    positions = torch.randint(0, capacity - tokens + 1, (batch,), device=device)
    positions[0] = capacity - tokens  # the last place there is
    return (*caches, *new, positions)


def appended(k_cache: torch.Tensor, v_cache: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor):
    """Both caches as they are to be, places outside of them left out."""
    expected = k_cache.clone(), v_cache.clone()
    for b, position in enumerate(positions.tolist()):
        for t in range(k.shape[2]):
            if 0 <= position + t < k_cache.shape[2]:
                expected[0][b, :, position + t] = k[b, :, t]
                expected[1][b, :, position + t] = v[b, :, t]
    return expected


def assert_appends(append: Callable[..., object], call: Tensors) -> None:
    k_cache, v_cache, k, v, positions = call
    expected = appended(*call)
    before = k.clone(), v.clone(), positions.clone()
    assert append(*call) is None
    assert torch.equal(k_cache, expected[0])
    assert torch.equal(v_cache, expected[1])
    assert all(torch.equal(now, then) for now, then in zip((k, v, positions), before, strict=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_new_rows_are_written_and_no_others(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    assert_appends(kernels.kv_append, call_of(shape, dtype, device))


STRIDED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "batch, tokens, heads, head_dim": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "rows with room between them": lambda x: torch.cat((x, x), dim=-1)[..., : x.shape[-1]],
    "rows at odd addresses": lambda x: torch.cat((x, x[..., :1]), dim=-1)[..., 1:],
    "begins at an odd address": lambda x: torch.cat((x.flatten()[:1], x.flatten()))[1:].view(x.shape),
}


@pytest.mark.parametrize("which", [(0, 1), (2, 3), (0, 1, 2, 3), (0,), (3,)], ids=str)
@pytest.mark.parametrize("layout", STRIDED)
def test_strides_other_than_the_last_are_free(layout: str, which: tuple[int, ...], device: str) -> None:
    tensors = list(call_of((2, 3, 5, 9, 64), torch.float16, device))
    for index in which:
        tensors[index] = STRIDED[layout](tensors[index])
    assert_appends(kernels.kv_append, tuple(tensors))  # type: ignore[arg-type]


def test_one_head_may_be_seen_by_all(device: str) -> None:
    k_cache, v_cache, k, v, positions = call_of((2, 3, 5, 9, 64), torch.float16, device)
    assert_appends(kernels.kv_append, (k_cache, v_cache, k[:, :1].expand(k.shape), v, positions))


@pytest.mark.parametrize("position", [-1, 5, 8, 2**62, -(2**62)])
def test_a_token_beyond_the_cache_is_refused_on_the_cpu(position: int) -> None:
    call = call_of((2, 3, 4, 8, 16), torch.float32, "cpu")
    call[4][1] = position
    before = call[0].clone()
    with pytest.raises(RuntimeError, match=f"tokens of sequence 1 do not fit at position {position} of a cache of cap"):
        kernels.kv_append(*call)
    assert torch.equal(call[0], before)


def test_one_position_is_that_of_all_sequences(device: str) -> None:
    k_cache, v_cache, k, v, positions = call_of((2, 3, 4, 8, 16), torch.float16, device)
    at_two = appended(k_cache, v_cache, k, v, torch.full_like(positions, 2))
    kernels.kv_append(k_cache, v_cache, k, v, 2)
    assert torch.equal(k_cache, at_two[0])
    assert torch.equal(v_cache, at_two[1])


@pytest.mark.parametrize("position", [-1, 5, 8, 2**62])
def test_one_position_beyond_the_cache_is_refused(position: int, device: str) -> None:
    k_cache, v_cache, k, v, _ = call_of((2, 3, 4, 8, 16), torch.float16, device)
    with pytest.raises(RuntimeError, match=f"the 4 tokens do not fit at position {position} of a cache of capacity 8"):
        kernels.kv_append(k_cache, v_cache, k, v, position)


@pytest.mark.parametrize("position", [-1, -3, -4, 5, 8, 2**62, -(2**62), 2**63 - 1, -(2**63)])
def test_a_token_beyond_the_cache_is_left_out_on_the_gpu(position: int, cuda: str) -> None:
    call = call_of((2, 3, 4, 8, 16), torch.float32, cuda)
    call[4][1] = position
    assert_appends(kernels.kv_append, call)


@pytest.mark.parametrize("shape", [(0, 2, 3, 4, 8), (2, 0, 3, 4, 8), (2, 2, 0, 4, 8), (2, 2, 3, 4, 0)], ids=str)
def test_nothing_to_append_changes_nothing(shape: tuple[int, ...], device: str) -> None:
    batch, heads, tokens, capacity, head_dim = shape
    cache = torch.ones(batch, heads, capacity, head_dim, device=device)
    new = torch.empty(batch, heads, tokens, head_dim, device=device)
    kernels.kv_append(cache, cache.clone(), new, new, torch.zeros(batch, dtype=torch.int64, device=device))
    assert bool((cache == 1).all())


REFUSED: dict[str, Callable[..., tuple[torch.Tensor, ...]]] = {
    "kv_append: k must have 4 dimensions (batch, heads, tokens, head_dim), got shape [3, 2, 8]": (
        lambda c, d, k, v, p: (c, d, k[0], v, p)
    ),
    "kv_append: k must be float16, bfloat16 or float32, got int64": lambda c, d, k, v, p: (c, d, k.long(), v, p),
    "kv_append: k and v differ in shape: [2, 3, 2, 8] against [2, 3, 1, 8]": (
        lambda c, d, k, v, p: (c, d, k, v[:, :, :1], p)
    ),
    "kv_append: k_cache must have shape [2, 3, 5, 8] (batch, heads, capacity, head_dim), got [2, 1, 5, 8]": (
        lambda c, d, k, v, p: (c[:, :1], d[:, :1], k, v, p)
    ),
    "kv_append: k and v_cache differ in dtype: float32 against float16": (lambda c, d, k, v, p: (c, d.half(), k, v, p)),
    "kv_append: positions must have shape [2] (batch), got [1]": lambda c, d, k, v, p: (c, d, k, v, p[:1]),
    "kv_append: positions must be int64, got int32": lambda c, d, k, v, p: (c, d, k, v, p.int()),
    "kv_append: v_cache must not be expanded, for it is written to; got strides [120, 0, 8, 1]": (
        lambda c, d, k, v, p: (c, d[:, :1].expand(c.shape), k, v, p)
    ),
    "kv_append: k_cache must not show one memory in several places, for it is written to; got strides [120, 40, 4, 1] "
    "for shape [2, 3, 5, 8]": lambda c, d, k, v, p: (c.as_strided(c.shape, (120, 40, 4, 1)), d, k, v, p),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_errors_state_what_was_passed_and_what_is_expected(sentence: str, device: str) -> None:
    caches = (torch.zeros(2, 3, 5, 8, device=device) for _ in range(2))
    new = (torch.zeros(2, 3, 2, 8, device=device) for _ in range(2))
    arguments = REFUSED[sentence](*caches, *new, torch.zeros(2, dtype=torch.int64, device=device))
    with pytest.raises(RuntimeError) as refusal:
        kernels.kv_append(*arguments)
    assert str(refusal.value).splitlines()[0] == sentence


def test_is_a_well_behaved_operator(device: str) -> None:
    call = call_of((2, 3, 4, 9, 16), torch.float16, device)
    torch.library.opcheck(torch.ops.warpwatch.kv_append.default, call, raise_exception=True)


def test_compiles_without_graph_breaks(device: str) -> None:
    call = call_of((2, 3, 4, 9, 16), torch.float32, device)
    expected = appended(*call)[0] * 2

    @torch.compile(fullgraph=True)
    def doubled(*tensors: torch.Tensor) -> torch.Tensor:
        kernels.kv_append(*tensors)
        return tensors[0] * 2

    assert torch.equal(doubled(*call), expected)
    assert torch.equal(call[0] * 2, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES[:5], ids=str)
def test_triton_twin_agrees_on_the_gpu(shape: tuple[int, ...], dtype: torch.dtype, cuda: str) -> None:
    from warpwatch.kernels.triton.kv_append import kv_append

    assert_appends(kv_append, call_of(shape, dtype, cuda))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES[:5], ids=str)
def test_triton_twin_agrees_when_interpreted(
    shape: tuple[int, ...], dtype: torch.dtype, twin: Callable[..., Callable[..., object]], device: str
) -> None:
    if device == "cuda":
        pytest.skip("the test above")
    # The interpreter is another process: what it writes to comes back only through shared memory.
    call = call_of(shape, dtype, "cpu")
    call[4][-1] += 1  # a token beyond the cache, sometimes: left out, as on the GPU
    for tensor in call:
        tensor.share_memory_()
    assert_appends(twin("kv_append"), call)


def test_replays_from_a_cuda_graph(cuda: str) -> None:
    call = call_of((2, 3, 1, 9, 128), torch.float16, cuda)
    k_cache, _, k, _, positions = call
    kernels.kv_append(*call)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernels.kv_append(*call)
    k.copy_(torch.randn_like(k))
    positions.copy_(torch.tensor([3, 0], device=cuda))
    expected = appended(*call)
    graph.replay()
    assert torch.equal(k_cache, expected[0])


def test_offsets_beyond_32_bits(cuda: str) -> None:
    if torch.cuda.mem_get_info()[0] < 20 * 2**30:
        pytest.skip("needs 20 GiB of free GPU memory")
    k_cache, v_cache = (torch.zeros(2, 1, 9_000_000, 128, dtype=torch.float16, device=cuda) for _ in range(2))
    new = torch.ones(2, 1, 3, 128, dtype=torch.float16, device=cuda)
    kernels.kv_append(k_cache, v_cache, new, 2 * new, torch.tensor([0, 8_999_997], device=cuda))
    assert bool((k_cache[1, 0, -3:] == 1).all())
    assert bool((v_cache[1, 0, -3:] == 2).all())
    assert k_cache[1, 0, :-3].count_nonzero() == 0
