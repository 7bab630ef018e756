"""int4_linear as an operator: what it refuses and in which words, opcheck, torch.compile."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from warpwatch import kernels

Operands = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def operands(device: str) -> Operands:
    """x (3, 256), packed_weight (1, 4, 512), scales (5, 2)."""
    x = torch.randn(3, 256, device=device).half()
    return x, *kernels.quantize_int4(torch.randn(5, 256, device=device).half())


REFUSED: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Operands]] = {
    "int4_linear: x must have at least one dimension (..., K), got a scalar": lambda x, p, s: (x[0, 0], p, s),
    "int4_linear: the last dimension of x must be contiguous (stride 1), got strides [1, 3] for shape [3, 256]": (
        lambda x, p, s: (x.t().contiguous().t(), p, s)
    ),
    "int4_linear: packed_weight must have 3 dimensions (ceil(N / 16), K / 64, 512), got shape [5, 128]": (
        lambda x, p, s: (x, p.new_zeros(5, 128), s)
    ),
    "int4_linear: packed_weight must be uint8, got int8": lambda x, p, s: (x, p.to(torch.int8), s),
    "int4_linear: scales must have 2 dimensions (N, K / group_size), got shape [10]": (
        lambda x, p, s: (x, p, s.flatten())
    ),
    "int4_linear: x and scales differ in dtype: float16 against float32": lambda x, p, s: (x, p, s.float()),
    "int4_linear: K must be a positive multiple of group_size 128, got x of shape [3, 200]": (
        lambda x, p, s: (x[:, :200], p, s)
    ),
    "int4_linear: K must be a positive multiple of group_size 128, got x of shape [3, 0]": (
        lambda x, p, s: (x[:, :0], p, s)
    ),
    (
        "int4_linear: packed_weight must have shape [1, 4, 512] (ceil(N / 16), K / 64, 512), as pack_int4 makes it, "
        "got [2, 4, 512]"
    ): lambda x, p, s: (x, p.repeat(2, 1, 1), s),
    "int4_linear: scales must have shape [5, 2] (N, K / group_size), got [5, 1]": lambda x, p, s: (x, p, s[:, :1]),
    "int4_linear: packed_weight must be contiguous, got strides [4096, 1024, 1] for shape [1, 4, 512]": (
        lambda x, p, s: (x, p.repeat(1, 1, 2)[..., :512], s)
    ),
    "int4_linear: scales must be contiguous, got strides [1, 5] for shape [5, 2]": (
        lambda x, p, s: (x, p, s.t().contiguous().t())
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_errors_state_what_was_passed_and_what_is_expected(sentence: str, device: str) -> None:
    assert _refusal(*REFUSED[sentence](*operands(device))) == sentence


def test_says_which_group_sizes_there_are(device: str) -> None:
    assert _refusal(*operands(device), group_size=32) == "int4_linear: group_size must be 64 or 128, got 32"


def test_says_which_dtypes_there_are() -> None:
    x, packed, scales = operands("cpu")
    expected = "int4_linear: x must be float16, bfloat16 or float32, got float64"
    assert _refusal(x.double(), packed, scales.double()) == expected


def test_says_which_dtypes_the_gpu_takes(cuda: str) -> None:
    x, packed, scales = operands(cuda)
    assert _refusal(x.float(), packed, scales.float()) == "int4_linear: x must be float16 or bfloat16, got float32"


def test_says_which_tensor_is_on_which_device(cuda: str) -> None:
    x, packed, scales = operands(cuda)
    expected = "int4_linear: x and packed_weight must be on one device: x is on cuda:0, packed_weight on cpu"
    assert _refusal(x, packed.cpu(), scales) == expected


@pytest.mark.parametrize("rows", [1, 3, 20])
def test_says_that_rows_of_x_must_be_aligned_on_the_gpu(rows: int, cuda: str) -> None:
    _, packed, scales = operands(cuda)
    moved = torch.randn(rows * 256 + 1, device=cuda).half()[1:].view(rows, 256)
    assert _refusal(moved, packed, scales) == (
        "int4_linear: each row of x must start on a 16-byte boundary, for it is read 16 bytes at a time; "
        "got strides [256, 1] and a start 2 bytes past one; pass x.clone(memory_format=torch.contiguous_format)"
    )
    odd = torch.randn(2 * rows, 260, device=cuda).half()[:, :256]
    assert "got strides [260, 1] and a start 0 bytes past one" in _refusal(odd, packed, scales)


def test_says_that_packed_weight_must_be_aligned_on_the_gpu(cuda: str) -> None:
    x, packed, scales = operands(cuda)
    moved = torch.cat((packed.flatten()[:8], packed.flatten()))[8:].view(packed.shape)
    assert _refusal(x, moved, scales) == (
        "int4_linear: packed_weight must start on a 16-byte boundary, for it is read 16 bytes at a time; "
        "it starts 8 bytes past one; pass packed_weight.clone()"
    )


def _refusal(*arguments: torch.Tensor, group_size: int = 128) -> str:
    with pytest.raises(RuntimeError) as refusal:
        kernels.int4_linear(*arguments, group_size=group_size)
    return str(refusal.value).splitlines()[0]


REFUSED_ZERO_POINTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "int4_linear: zero_points must have shape [5, 2] (N, K / group_size), got [4, 2]": lambda z: z[:4],
    "int4_linear: zero_points must be uint8, got int8": lambda z: z.to(torch.int8),
    "int4_linear: zero_points must be contiguous, got strides [1, 5] for shape [5, 2]": (
        lambda z: z.t().contiguous().t()
    ),
}


@pytest.mark.parametrize("sentence", REFUSED_ZERO_POINTS)
def test_says_what_zero_points_it_takes(sentence: str, device: str) -> None:
    x, packed, scales = operands(device)
    zero_points = REFUSED_ZERO_POINTS[sentence](torch.full((5, 2), 8, dtype=torch.uint8, device=device))
    with pytest.raises(RuntimeError) as refusal:
        kernels.int4_linear(x, packed, scales, zero_points)
    assert str(refusal.value).splitlines()[0] == sentence


def test_says_where_the_zero_points_are(cuda: str) -> None:
    x, packed, scales = operands(cuda)
    with pytest.raises(RuntimeError, match="x and zero_points must be on one device: x is on cuda:0"):
        kernels.int4_linear(x, packed, scales, torch.full((5, 2), 8, dtype=torch.uint8))


@pytest.mark.parametrize("rows", [1, 64, 300])
@pytest.mark.parametrize("zeros", [False, True], ids=["symmetric", "zero points"])
def test_is_a_well_behaved_operator(rows: int, zeros: bool, device: str) -> None:
    _, packed, scales = operands(device)
    zero_points = torch.full(scales.shape, 7, dtype=torch.uint8, device=device) if zeros else None
    x = torch.randn(rows, 256, device=device).half()
    for each in (x, x[0], x.view(1, rows, 256), torch.cat((x, x), dim=1)[:, :256]):
        torch.library.opcheck(
            torch.ops.warpwatch.int4_linear.default, (each, packed, scales, 128, zero_points), raise_exception=True
        )


@pytest.mark.parametrize("zeros", [False, True], ids=["symmetric", "zero points"])
def test_compiles_without_graph_breaks(zeros: bool, device: str) -> None:
    x, packed, scales = operands(device)
    zero_points = torch.full(scales.shape, 7, dtype=torch.uint8, device=device) if zeros else None

    @torch.compile(fullgraph=True)
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return kernels.int4_linear(x, packed, scales, zero_points) * 2

    assert torch.equal(doubled(x), kernels.int4_linear(x, packed, scales, zero_points) * 2)


def test_leaves_its_input_alone(device: str) -> None:
    given = operands(device)
    before = [tensor.clone() for tensor in given]
    kernels.int4_linear(*given)
    assert all(torch.equal(now, then) for now, then in zip(given, before, strict=True))
