"""rms_norm and layer_norm, with and without a residual, against float64: widths at each kernel's edge, strides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from perf_suite.benchmarks.layer_norm import add_layer_norm, layer_norm
from perf_suite.benchmarks.rms_norm import add_rms_norm, rms_norm
from warpwatch import kernels

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
NORMS = ["rms_norm", "layer_norm"]
REFERENCES: dict[str, Callable[..., torch.Tensor]] = {"rms_norm": rms_norm, "layer_norm": layer_norm}
ADD_REFERENCES: dict[str, Callable[..., tuple[torch.Tensor, torch.Tensor]]] = {
    "rms_norm": add_rms_norm,
    "layer_norm": add_layer_norm,
}
WIDTHS = [
    1,
    17,  # no 16-byte piece fits
    128,  # sixteen pieces of fp16: half a warp
    136,  # a piece more
    256,  # a warp with a piece each
    1000,  # a warp with up to four
    1024,
    1032,  # a block of 128 threads
    4096,
    4104,  # of 256
    4097,  # by elements, in a block
    8200,  # of 512
    16392,  # beyond all registers
]


def vectors(norm: str, cols: int, dtype: torch.dtype, device: str) -> tuple[torch.Tensor, ...]:
    weight = (torch.rand(cols, device=device) + 0.5).to(dtype)
    return (weight,) if norm == "rms_norm" else (weight, torch.randn(cols, dtype=dtype, device=device))


def assert_normalised(out: torch.Tensor, expected: torch.Tensor) -> None:
    # One rounding to the dtype; the interpreter truncates to bfloat16, hence a whole unit and not half of one. Ahead of
    # it up to 16392 squares are summed in fp32, in rows of some hundred a thread: 2^-20 is ample, and next to a bias of
    # the other sign it is small against the terms, some 8 here, not against the result.
    torch.testing.assert_close(out.double(), expected, rtol=torch.finfo(out.dtype).eps + 2.0**-20, atol=8 * 2.0**-20)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("cols", WIDTHS)
@pytest.mark.parametrize("norm", NORMS)
def test_rows_are_normalised(norm: str, cols: int, dtype: torch.dtype, device: str) -> None:
    x = torch.randn(5, cols, dtype=dtype, device=device) * 3
    parameters = vectors(norm, cols, dtype, device)
    out = getattr(kernels, norm)(x, *parameters)
    assert out.dtype == dtype
    assert out.is_contiguous()
    assert_normalised(out, REFERENCES[norm](x, *parameters))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("cols", WIDTHS)
@pytest.mark.parametrize("norm", NORMS)
def test_a_residual_is_added_first_and_the_sum_handed_back(
    norm: str, cols: int, dtype: torch.dtype, device: str
) -> None:
    x, residual = (torch.randn(5, cols, dtype=dtype, device=device) for _ in range(2))
    before = x.clone(), residual.clone()
    parameters = vectors(norm, cols, dtype, device)
    out, total = getattr(kernels, f"add_{norm}")(x, residual, *parameters)
    assert torch.equal(total, x + residual)
    assert_normalised(out, ADD_REFERENCES[norm](x, residual, *parameters)[0])
    assert torch.equal(x, before[0])
    assert torch.equal(residual, before[1])


@pytest.mark.parametrize("rows", [1, 3, 4, 7, 8, 9, 300])
@pytest.mark.parametrize("cols", [128, 256, 512, 2048])
@pytest.mark.parametrize("norm", NORMS)
def test_rows_that_share_a_block_do_not_mix(norm: str, cols: int, rows: int, device: str) -> None:
    x = torch.randn(rows, cols, dtype=torch.float16, device=device) * torch.arange(1, rows + 1, device=device)[:, None]
    parameters = vectors(norm, cols, torch.float16, device)
    x = x.half()
    assert_normalised(getattr(kernels, norm)(x, *parameters), REFERENCES[norm](x, *parameters))


STRIDED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "one dimension": lambda x: x[0, 0],
    "three dimensions": lambda x: x,
    "rows with room between them": lambda x: torch.cat((x, x), dim=-1)[..., : x.shape[-1]],
    "rows at odd addresses": lambda x: torch.cat((x, x[..., :1]), dim=-1)[..., 1:],
    "begins at an odd address": lambda x: torch.cat((x.flatten()[:1], x.flatten()))[1:].view(x.shape),
    "dimensions that do not collapse": lambda x: x.transpose(0, 1),
    "one row seen by all": lambda x: x[:1, :1].expand(x.shape),
}


@pytest.mark.parametrize("layout", STRIDED)
@pytest.mark.parametrize("norm", NORMS)
def test_leading_dimensions_are_free(norm: str, layout: str, device: str) -> None:
    x, residual = (STRIDED[layout](torch.randn(3, 4, 256, dtype=torch.float16, device=device)) for _ in range(2))
    parameters = vectors(norm, 256, torch.float16, device)
    out = getattr(kernels, norm)(x, *parameters)
    assert out.shape == x.shape
    assert out.is_contiguous()
    assert_normalised(out, REFERENCES[norm](x, *parameters))
    # The two strides are free of each other.
    for other in (residual, residual.contiguous()):
        out, total = getattr(kernels, f"add_{norm}")(x, other, *parameters)
        assert torch.equal(total, x + other)
        assert_normalised(out, ADD_REFERENCES[norm](x, other, *parameters)[0])


@pytest.mark.parametrize("cols", [1000, 4097])
def test_layer_norm_survives_a_mean_far_from_zero(cols: int, device: str) -> None:
    # In fp32 the mean of squares would be 1e6 +- 0.06: the variance, 1, would be off by several per cent.
    x = torch.randn(4, cols, device=device) + 1000
    weight = torch.ones(cols, device=device)
    expected = layer_norm(x, weight)
    # The mean itself is exact to some 2^-23 of 1000, which moves every element of a row by as much.
    torch.testing.assert_close(kernels.layer_norm(x, weight).double(), expected, rtol=1e-4, atol=5e-4)


def test_layer_norm_goes_without_a_bias(device: str) -> None:
    x = torch.randn(4, 768, device=device)
    weight = torch.rand(768, device=device)
    assert_normalised(kernels.layer_norm(x, weight), layer_norm(x, weight))
    assert_normalised(kernels.add_layer_norm(x, x, weight)[0], layer_norm(x + x, weight))


@pytest.mark.parametrize("norm", NORMS)
def test_eps_keeps_a_row_of_zeros_finite_and_is_the_callers(norm: str, device: str) -> None:
    x = torch.zeros(2, 256, device=device)
    x[1] = torch.randn(256, device=device) * 1e-3
    parameters = vectors(norm, 256, torch.float32, device)
    for eps in (1e-6, 0.5):
        assert_normalised(getattr(kernels, norm)(x, *parameters, eps=eps), REFERENCES[norm](x, *parameters, eps=eps))


@pytest.mark.parametrize("norm", NORMS)
def test_a_nan_stays_in_its_row(norm: str, device: str) -> None:
    x = torch.randn(8, 128, dtype=torch.float16, device=device)
    x[3, 77] = torch.nan
    bad = getattr(kernels, norm)(x, *vectors(norm, 128, torch.float16, device)).isnan().all(dim=-1)
    assert bad.tolist() == [row == 3 for row in range(8)]


@pytest.mark.parametrize("shape", [(0, 8), (3, 0), (2, 0, 4)], ids=str)
@pytest.mark.parametrize("norm", NORMS)
def test_no_rows_give_an_empty_tensor(norm: str, shape: tuple[int, ...], device: str) -> None:
    x = torch.empty(shape, device=device)
    parameters = vectors(norm, shape[-1], torch.float32, device)
    assert getattr(kernels, norm)(x, *parameters).shape == shape
    assert [each.shape for each in getattr(kernels, f"add_{norm}")(x, x, *parameters)] == [shape, shape]


Call = Callable[[torch.Tensor, torch.Tensor], object]
REFUSED: dict[str, Call] = {
    "rms_norm: x must have at least one dimension (..., cols), got a scalar": lambda x, w: kernels.rms_norm(x[0, 0], w),
    "rms_norm: x must be float16, bfloat16 or float32, got int64": lambda x, w: kernels.rms_norm(x.long(), w),
    "rms_norm: the last dimension of x must be contiguous (stride 1), got strides [8, 2] for shape [3, 4]": (
        lambda x, w: kernels.rms_norm(x[:, ::2], w[:4])
    ),
    "rms_norm: weight must have shape [8] (cols), got [7]": lambda x, w: kernels.rms_norm(x, w[:7]),
    "rms_norm: x and weight differ in dtype: float32 against float16": lambda x, w: kernels.rms_norm(x, w.half()),
    "rms_norm: eps must not be negative, got -1": lambda x, w: kernels.rms_norm(x, w, eps=-1.0),
    "add_rms_norm: x and residual differ in shape: [3, 8] against [1, 8]": (
        lambda x, w: kernels.add_rms_norm(x, x[:1], w)
    ),
    "add_rms_norm: x and residual differ in dtype: float32 against float16": (
        lambda x, w: kernels.add_rms_norm(x, x.half(), w)
    ),
    "layer_norm: weight must be contiguous, got strides [2] for shape [8]": (
        lambda x, w: kernels.layer_norm(x, w.repeat(2)[::2])
    ),
    "layer_norm: bias must have shape [8] (cols), got [1]": lambda x, w: kernels.layer_norm(x, w, w[:1]),
    "add_layer_norm: x and bias differ in dtype: float32 against bfloat16": (
        lambda x, w: kernels.add_layer_norm(x, x, w, w.bfloat16())
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_errors_state_what_was_passed_and_what_is_expected(sentence: str, device: str) -> None:
    with pytest.raises(RuntimeError) as refusal:
        REFUSED[sentence](torch.zeros(3, 8, device=device), torch.zeros(8, device=device))
    assert str(refusal.value).splitlines()[0] == sentence


@pytest.mark.parametrize("norm", NORMS)
def test_is_a_well_behaved_operator(norm: str, device: str) -> None:
    x = torch.randn(2, 3, 16, dtype=torch.float16, device=device)
    parameters = vectors(norm, 16, torch.float16, device)
    operators = torch.ops.warpwatch
    for each in (x, x.transpose(0, 1)):
        torch.library.opcheck(getattr(operators, norm).default, (each, *parameters), raise_exception=True)
        torch.library.opcheck(
            getattr(operators, f"add_{norm}").default, (each, each, *parameters), raise_exception=True
        )


@pytest.mark.parametrize("norm", NORMS)
def test_compiles_without_graph_breaks(norm: str, device: str) -> None:
    parameters = vectors(norm, 16, torch.float32, device)

    @torch.compile(fullgraph=True)
    def doubled(x: torch.Tensor) -> torch.Tensor:
        out, total = getattr(kernels, f"add_{norm}")(x, x, *parameters)
        return out * 2 + total

    x = torch.randn(3, 16, device=device)
    out, total = getattr(kernels, f"add_{norm}")(x, x, *parameters)
    assert torch.equal(doubled(x), out * 2 + total)


@pytest.mark.parametrize("residual", [False, True], ids=["alone", "residual"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("cols", [1, 17, 128, 1000, 4097])
@pytest.mark.parametrize("norm", NORMS)
def test_triton_twin_agrees(
    norm: str, cols: int, dtype: torch.dtype, residual: bool, device: str, twin: Callable[..., Callable[..., object]]
) -> None:
    x = torch.randn(6, 2, cols, dtype=dtype, device=device)[:, 0]
    parameters = vectors(norm, cols, dtype, device)
    if not residual:
        out = twin(norm)(x, *parameters)
        assert isinstance(out, torch.Tensor)
        assert_normalised(out, REFERENCES[norm](x, *parameters))
        return
    # Sums that the dtype holds, for the interpreter truncates where the hardware rounds to bfloat16.
    other = (-x).contiguous() * 0.5
    out, total = twin(norm, f"add_{norm}")(x, other, *parameters)  # type: ignore[misc]
    assert torch.equal(total, x + other)
    assert_normalised(out, ADD_REFERENCES[norm](x, other, *parameters)[0])


@pytest.mark.parametrize("norm", NORMS)
def test_replays_from_a_cuda_graph(norm: str, cuda: str) -> None:
    x = torch.randn(64, 4096, dtype=torch.float16, device=cuda)
    parameters = vectors(norm, 4096, torch.float16, cuda)
    getattr(kernels, f"add_{norm}")(x, x, *parameters)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, total = getattr(kernels, f"add_{norm}")(x, x, *parameters)
    x.copy_(torch.randn_like(x))
    graph.replay()
    assert torch.equal(total, x + x)
    assert_normalised(out, ADD_REFERENCES[norm](x, x, *parameters)[0])


@pytest.mark.parametrize("norm", NORMS)
def test_is_the_same_bit_for_bit_from_call_to_call(norm: str, cuda: str) -> None:
    x = torch.randn(4096, 4096, dtype=torch.float16, device=cuda)
    parameters = vectors(norm, 4096, torch.float16, cuda)
    assert torch.equal(getattr(kernels, norm)(x, *parameters), getattr(kernels, norm)(x, *parameters))


@pytest.mark.parametrize("cols", [4096, 4097], ids=["pieces", "elements"])
def test_offsets_beyond_32_bits(cols: int, cuda: str) -> None:
    if torch.cuda.mem_get_info()[0] < 20 * 2**30:
        pytest.skip("needs 20 GiB of free GPU memory")
    x = torch.empty(540_000, cols, dtype=torch.float16, device=cuda)  # 2.2e9 elements
    x[-1].normal_()
    parameters = vectors("layer_norm", cols, torch.float16, cuda)
    out, total = kernels.add_layer_norm(x, x, *parameters)
    assert torch.equal(total[-1], 2 * x[-1])
    assert_normalised(out[-1], layer_norm(2 * x[-1], *parameters))
