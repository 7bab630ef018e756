"""vector_add against PyTorch's own: lengths at the edges of pieces and blocks, odd addresses, what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from warpwatch import kernels

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
# A piece is 4 or 8 elements; a block 2048 or 4096 of them.
SHAPES = [
    (1,),
    (3,),
    (4,),
    (7,),
    (8,),
    (9,),
    (17,),
    (1000,),
    (2048,),
    (2049,),
    (4096,),
    (4097,),
    (70001,),
    (3, 5, 7),
    (),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_adds(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> None:
    a, b = (torch.randn(shape, dtype=dtype, device=device) for _ in range(2))
    before = a.clone(), b.clone()
    out = kernels.vector_add(a, b)
    # Both add in fp32 and round once: equal bit for bit.
    assert torch.equal(out, a + b)
    assert out.is_contiguous()
    assert torch.equal(a, before[0])
    assert torch.equal(b, before[1])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("starts", [(0, 1), (1, 0), (1, 1), (8, 8)], ids=str)
def test_any_element_may_be_the_first(starts: tuple[int, int], dtype: torch.dtype, device: str) -> None:
    a, b = (torch.randn(5000, dtype=dtype, device=device)[start : start + 4900] for start in starts)
    assert torch.equal(kernels.vector_add(a, b), a + b)


def test_infinities_and_nans_go_through(device: str) -> None:
    a = torch.tensor([torch.inf, torch.inf, torch.nan, 6e4] * 3, dtype=torch.float16, device=device)
    b = torch.tensor([1.0, -torch.inf, 1.0, 6e4] * 3, dtype=torch.float16, device=device)
    torch.testing.assert_close(kernels.vector_add(a, b), a + b, rtol=0, atol=0, equal_nan=True)


def test_nothing_to_add_gives_an_empty_tensor(device: str) -> None:
    a = torch.empty(3, 0, device=device)
    assert kernels.vector_add(a, a).shape == (3, 0)


REFUSED: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]] = {
    "vector_add: a must be float16, bfloat16 or float32, got int64": lambda a: (a.long(), a.long()),
    "vector_add: a and b differ in dtype: float32 against float16": lambda a: (a, a.half()),
    "vector_add: a and b differ in shape: [4, 6] against [6]": lambda a: (a, a[0]),
    "vector_add: a must be contiguous, got strides [1, 6] for shape [6, 4]": lambda a: (a.t(), a.t()),
    "vector_add: b must be contiguous, got strides [1, 6] for shape [6, 4]": lambda a: (a.view(6, 4), a.t()),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_errors_state_what_was_passed_and_what_is_expected(sentence: str, device: str) -> None:
    with pytest.raises(RuntimeError) as refusal:
        kernels.vector_add(*REFUSED[sentence](torch.zeros(4, 6, device=device)))
    assert str(refusal.value).splitlines()[0] == sentence


def test_says_which_tensor_is_on_which_device(cuda: str) -> None:
    with pytest.raises(RuntimeError, match="vector_add: a and b must be on one device: a is on cuda:0, b on cpu"):
        kernels.vector_add(torch.zeros(4, device=cuda), torch.zeros(4))


def test_is_a_well_behaved_operator(device: str) -> None:
    a = torch.randn(3, 5, dtype=torch.float16, device=device)
    torch.library.opcheck(torch.ops.warpwatch.vector_add.default, (a, a), raise_exception=True)


def test_compiles_without_graph_breaks(device: str) -> None:
    @torch.compile(fullgraph=True)
    def doubled(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return kernels.vector_add(a, b) * 2

    a, b = torch.randn(100, device=device), torch.randn(100, device=device)
    assert torch.equal(doubled(a, b), (a + b) * 2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 5000])
def test_triton_twin_agrees(
    count: int, dtype: torch.dtype, device: str, twin: Callable[[str], Callable[..., torch.Tensor]]
) -> None:
    # Sums that the dtype holds, for the interpreter truncates where the hardware rounds to bfloat16.
    a = torch.randint(-100, 100, (count,), device=device).to(dtype)
    b = torch.randint(-100, 100, (count,), device=device).to(dtype)
    assert torch.equal(twin("vector_add")(a, b), a + b)


def test_replays_from_a_cuda_graph(cuda: str) -> None:
    a = torch.randn(4097, dtype=torch.float16, device=cuda)
    kernels.vector_add(a, a)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = kernels.vector_add(a, a)
    a.copy_(torch.randn_like(a))
    graph.replay()
    assert torch.equal(out, a + a)


@pytest.mark.parametrize("start", [0, 1], ids=["pieces", "elements"])
def test_offsets_beyond_32_bits(start: int, cuda: str) -> None:
    if torch.cuda.mem_get_info()[0] < 12 * 2**30:
        pytest.skip("needs 12 GiB of free GPU memory")
    a = torch.ones(2**31 + 4099, dtype=torch.float16, device=cuda)[start:]
    out = kernels.vector_add(a, a)
    assert bool((out == 2).all())
