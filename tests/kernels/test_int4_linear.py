"""int4_linear against float64: edges of its tiles, every nibble, leading dimensions, streams and graphs."""

from __future__ import annotations

import os
from collections.abc import Callable
from math import ceil

import pytest
import torch

from perf_suite.benchmarks.int4_linear import dequantised
from perf_suite.benchmarks.int4_linear import int4_linear as reference
from warpwatch import kernels

from .bfloat16 import skip_without_bfloat16
from .triton_compiler import compile_for

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
# On the GPU tiles of x are 8, 16, 32, 64 and 128 rows high; 65 needs a second block of 64.
ROWS = [1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 128]
# Tiles of outputs are 16 to 128 wide. Groups go round 8 warps by 4 and by 2, or through a ring of stages; 40 and 9 of
# them leave some idle, and are no multiple of the blocks that divide them.
OUTPUTS_AND_DEPTHS = [(1, 128), (17, 256), (33, 4096), (1000, 128), (130, 1152), (48, 5120), (9000, 256), (16000, 128)]

Quantized = tuple[torch.Tensor, torch.Tensor]


def packed_weight(packed: torch.Tensor) -> torch.Tensor:
    """Rows of two values a byte, as the reference takes them, in the kernels' order."""
    return kernels.pack_int4(torch.stack((packed & 15, packed >> 4), dim=-1).flatten(1))


def rows_of(in_order: torch.Tensor, outputs: int) -> torch.Tensor:
    """The way back."""
    values = kernels.unpack_int4(in_order, outputs)
    return values[:, 0::2] | (values[:, 1::2] << 4)


def int4_linear(
    x: torch.Tensor,
    packed: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None = None,
    *,
    group_size: int = 128,
) -> torch.Tensor:
    """The operator, on rows of two values a byte."""
    return kernels.int4_linear(x, packed_weight(packed), scales, zero_points, group_size=group_size)


def quantized(outputs: int, depth: int, dtype: torch.dtype, device: str, group_size: int = 128) -> Quantized:
    """Every nibble equally often, and scales that differ by two orders of magnitude."""
    packed = torch.randint(0, 256, (outputs, depth // 2), dtype=torch.uint8, device=device)
    scales = (10 ** (2 * torch.rand(outputs, depth // group_size, device=device) - 3)).to(dtype)
    return packed, scales


def inputs(
    device: str, dtype: torch.dtype, rows: int, outputs: int, depth: int, group_size: int = 128
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if device == "cuda" and dtype == torch.float32:
        pytest.skip("on the GPU x is float16 or bfloat16")
    skip_without_bfloat16(device, dtype)
    x = torch.randn(rows, depth, device=device).to(dtype)
    return x, *quantized(outputs, depth, dtype, device, group_size)


def some_zero_points(scales: torch.Tensor) -> torch.Tensor:
    """Each of the sixteen about equally often."""
    return torch.randint(0, 16, scales.shape, dtype=torch.uint8, device=scales.device)


def assert_multiplied(
    out: torch.Tensor,
    x: torch.Tensor,
    packed: torch.Tensor,
    scales: torch.Tensor,
    group_size: int = 128,
    zero_points: torch.Tensor | None = None,
    weight_rounded: bool = False,
) -> None:
    # The result is rounded once, by half an eps of itself. Before that, x times nibble - 8 is exact in fp32, and adding
    # up K products in any order leaves less than sqrt(K) 2^-23 of the sum of their magnitudes (2^-22 where an mma
    # truncates as it aligns), with room to spare since errors of both signs meet.
    expected = reference(x, packed, scales, group_size, zero_points)
    magnitude = x.double().abs() @ dequantised(packed, scales, group_size, zero_points).abs().T
    allowed = 0.51 * torch.finfo(out.dtype).eps * expected.abs() + x.shape[-1] ** 0.5 * 2.0**-22 * magnitude
    if out.dtype == torch.float16:
        allowed = allowed + 2.0**-25  # half of the smallest step
    if weight_rounded:  # to x's dtype: each product is off by half an eps of itself at most, in either direction
        allowed = allowed + 0.5 * torch.finfo(out.dtype).eps * magnitude
    worst = ((out.double() - expected).abs() / allowed).max().item()
    assert worst <= 1.0, f"{worst:.3g} times the error allowed"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", OUTPUTS_AND_DEPTHS, ids=str)
@pytest.mark.parametrize("rows", ROWS)
def test_agrees_with_float64_at_the_edges_of_tiles(
    rows: int, shape: tuple[int, int], dtype: torch.dtype, device: str
) -> None:
    x, packed, scales = inputs(device, dtype, rows, *shape)
    out = int4_linear(x, packed, scales)
    assert out.dtype == dtype
    assert out.shape == (rows, shape[0])
    assert_multiplied(out, x, packed, scales)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("depth", [64, 320, 1088])
@pytest.mark.parametrize("rows", [1, 5, 16, 17, 33])
def test_groups_of_64(rows: int, depth: int, dtype: torch.dtype, device: str) -> None:
    x, packed, scales = inputs(device, dtype, rows, 33, depth, 64)
    assert_multiplied(int4_linear(x, packed, scales, group_size=64), x, packed, scales, 64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("outputs", "depth", "group_size"), [(33, 1152, 128), (130, 4096, 128), (17, 1088, 64)])
@pytest.mark.parametrize("rows", [1, 2, 8, 16, 17, 64, 65])
def test_zero_points(rows: int, outputs: int, depth: int, group_size: int, dtype: torch.dtype, device: str) -> None:
    x, packed, scales = inputs(device, dtype, rows, outputs, depth, group_size)
    zero_points = some_zero_points(scales)
    out = int4_linear(x, packed, scales, zero_points, group_size=group_size)
    assert_multiplied(out, x, packed, scales, group_size, zero_points)


@pytest.mark.parametrize("rows", [1, 4, 20])
@pytest.mark.parametrize("group_size", [64, 128])
def test_zero_points_of_eight_are_none(group_size: int, rows: int, device: str) -> None:
    x, packed, scales = inputs(device, torch.float16, rows, 40, 320 if group_size == 64 else 384, group_size)
    eights = torch.full(scales.shape, 8, dtype=torch.uint8, device=device)
    out = int4_linear(x, packed, scales, eights, group_size=group_size)
    assert torch.equal(out, int4_linear(x, packed, scales, group_size=group_size))


# On the GPU many rows meet a weight that was rounded: for cuBLAS, on Hopper for tiles of 256 rows (tall_product.h).
def rounds_weight(rows: int, outputs: int, device: str) -> bool:
    if device == "cpu":
        return False
    forced = os.environ.get("WARPWATCH_COMPUTE_CAPABILITY")
    capability = (int(forced) // 10, int(forced) % 10) if forced else torch.cuda.get_device_capability()
    if capability != (9, 0):
        return rows > 128
    processors = torch.cuda.get_device_properties().multi_processor_count

    def waves(of_rows: int) -> int:
        return ceil(ceil(rows / of_rows) * ceil(outputs / 128) / processors)

    return rows > 4096 or (rows > 128 and 2 * waves(256) <= waves(128))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("zeros", [False, True], ids=["symmetric", "zero points"])
@pytest.mark.parametrize(("outputs", "depth", "group_size"), [(33, 1152, 128), (64, 192, 64)])
@pytest.mark.parametrize("rows", [129, 256, 257, 1000, 4097])
def test_many_rows(
    rows: int, outputs: int, depth: int, group_size: int, zeros: bool, dtype: torch.dtype, device: str
) -> None:
    x, packed, scales = inputs(device, dtype, rows, outputs, depth, group_size)
    zero_points = some_zero_points(scales) if zeros else None
    out = int4_linear(x, packed, scales, zero_points, group_size=group_size)
    assert_multiplied(out, x, packed, scales, group_size, zero_points, rounds_weight(rows, outputs, device))


# Hopper's widest tiles, which small layers never come to: 128 outputs of 128 rows, k in one part or two, or of 256.
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("zeros", [False, True], ids=["symmetric", "zero points"])
@pytest.mark.parametrize(("depth", "group_size"), [(128, 128), (1152, 128), (192, 64), (1088, 64)])
@pytest.mark.parametrize(
    ("rows", "outputs"), [(65, 6657), (128, 8192), (129, 3400), (200, 14344), (256, 8191), (700, 9000)]
)
def test_wide_layers(
    rows: int, outputs: int, depth: int, group_size: int, zeros: bool, dtype: torch.dtype, cuda: str
) -> None:
    x, packed, scales = inputs(cuda, dtype, rows, outputs, depth, group_size)
    zero_points = some_zero_points(scales) if zeros else None
    out = int4_linear(x, packed, scales, zero_points, group_size=group_size)
    assert_multiplied(out, x, packed, scales, group_size, zero_points, rounds_weight(rows, outputs, cuda))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("byte", [0x00, 0xFF, 0x0F, 0xF0, 0x80, 0x08])
@pytest.mark.parametrize("rows", [1, 20])
def test_every_weight_at_an_extreme(rows: int, byte: int, dtype: torch.dtype, device: str) -> None:
    x, packed, scales = inputs(device, dtype, rows, 40, 256)
    packed.fill_(byte)
    assert_multiplied(int4_linear(x, packed, scales), x, packed, scales)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [3, 20])
def test_each_k_meets_its_own_nibble(rows: int, dtype: torch.dtype, device: str) -> None:
    # One weight that is not zero in each output, at another k each time; x says which k it is. All of it is exact.
    depth = 256
    x, packed, scales = inputs(device, dtype, rows, depth, depth)
    packed.fill_(0x88)
    k = torch.arange(depth, device=device)
    packed[k, k // 2] = torch.where(k % 2 == 0, 0x89, 0x98).to(torch.uint8)
    scales.fill_(1)
    x.copy_((k + 1).expand(rows, depth))
    assert torch.equal(int4_linear(x, packed, scales), x)


@pytest.mark.parametrize("rows", [1, 20])
def test_an_infinite_x_stays_in_its_row(rows: int, device: str) -> None:
    x, packed, scales = inputs(device, torch.float16, rows + 1, 40, 256)
    x[rows, 17] = torch.inf
    out = int4_linear(x, packed, scales)
    assert not out[rows].isfinite().any()
    assert_multiplied(out[:rows], x[:rows], packed, scales)


LEADING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "one row without a dimension for it": lambda x: x[0],
    "batch, seq": lambda x: x.view(3, 4, -1),
    "batch, one, seq": lambda x: x.view(3, 1, 4, -1),
    "rows with room between them": lambda x: torch.cat((x, x), dim=-1)[:, : x.shape[-1]],
    "every other row": lambda x: x.repeat_interleave(2, dim=0)[::2],
    "one row seen twelve times": lambda x: x[:1].expand(x.shape),
    "seq, batch": lambda x: x.view(3, 4, -1).transpose(0, 1),
}


@pytest.mark.parametrize("layout", LEADING)
def test_leading_dimensions_are_free(layout: str, device: str) -> None:
    x, packed, scales = inputs(device, torch.float16, 12, 33, 256)
    x = LEADING[layout](x)
    out = int4_linear(x, packed, scales)
    assert out.shape == (*x.shape[:-1], 33)
    assert out.is_contiguous()
    assert_multiplied(out, x, packed, scales)


@pytest.mark.parametrize("shape", [(0, 128), (2, 0, 128)], ids=str)
def test_no_rows_give_an_empty_tensor(shape: tuple[int, ...], device: str) -> None:
    x = torch.empty(shape, dtype=torch.float16, device=device)
    assert int4_linear(x, *quantized(5, 128, torch.float16, device)).shape == (*shape[:-1], 5)


def test_no_outputs_give_an_empty_tensor(device: str) -> None:
    x = torch.empty(3, 128, dtype=torch.float16, device=device)
    assert int4_linear(x, *quantized(0, 128, torch.float16, device)).shape == (3, 0)


@pytest.mark.parametrize("rows", [1, 64])
def test_the_same_input_gives_the_same_bits(rows: int, device: str) -> None:
    x, packed, scales = inputs(device, torch.float16, rows, 300, 4096)
    first = int4_linear(x, packed, scales)
    assert all(torch.equal(first, int4_linear(x, packed, scales)) for _ in range(5))


# On Hopper each of these has tiles of its own. Weights that lie in the L2 come to a stage of the ring sooner than from
# memory: a stage that is given back too early, and read while it is filled again, shows in some of many calls.
@pytest.mark.parametrize("group_size", [64, 128])
@pytest.mark.parametrize(
    ("outputs", "depth"),
    [(28672, 1024), (14336, 4096), (11008, 1024), (6144, 4096), (4096, 4096), (4096, 14336)],
)
@pytest.mark.parametrize("rows", [1, 8, 16, 32, 64, 128, 256])
def test_many_calls_give_the_same_bits(rows: int, outputs: int, depth: int, group_size: int, cuda: str) -> None:
    x, packed, scales = inputs(cuda, torch.float16, rows, outputs, depth, group_size)
    zero_points = some_zero_points(scales)
    weight = packed_weight(packed)
    first = kernels.int4_linear(x, weight, scales, zero_points, group_size=group_size)
    assert_multiplied(first, x, packed, scales, group_size, zero_points, rounds_weight(rows, outputs, cuda))
    for _ in range(50):
        assert torch.equal(kernels.int4_linear(x, weight, scales, zero_points, group_size=group_size), first)


# The interpreter multiplies bfloat16 by their bits (Triton 3.6), so there only float16 and float32 can be compared.
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [1, 17, 70])
@pytest.mark.parametrize("zeros", [False, True], ids=["symmetric", "zero points"])
@pytest.mark.parametrize(("outputs", "depth", "group_size"), [(17, 128, 128), (130, 1152, 128), (40, 320, 64)])
def test_triton_twin_agrees(
    rows: int,
    outputs: int,
    depth: int,
    group_size: int,
    zeros: bool,
    dtype: torch.dtype,
    device: str,
    twin: Callable[[str], Callable[..., torch.Tensor]],
) -> None:
    if device == "cpu" and dtype == torch.bfloat16:
        pytest.skip("Triton's interpreter does not multiply bfloat16")
    x, packed, scales = inputs(device, dtype, rows, outputs, depth, group_size)
    x = x.view(rows, 1, depth)
    zero_points = some_zero_points(scales) if zeros else None
    out = twin("int4_linear")(x, packed_weight(packed), scales, zero_points, group_size=group_size)
    assert out.shape == (rows, 1, outputs)
    assert_multiplied(out, x, packed, scales, group_size, zero_points)


@pytest.mark.parametrize(
    ("rows", "dtype", "compute_capability", "aligned"),
    [
        (1, "bf16", 80, True),
        (64, "fp16", 90, True),
        (200, "fp16", 75, True),
        (200, "bf16", 80, True),
        (200, "fp16", 90, True),
        (200, "bf16", 120, True),
        (1, "bf16", 80, False),
    ],
)
def test_triton_twin_compiles_for_gpus_that_are_not_here(
    rows: int, dtype: str, compute_capability: int, aligned: bool
) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    from warpwatch.kernels.triton.int4_linear import _int4_linear, int4_linear_config

    config = int4_linear_config(rows=rows, outputs=4096, groups=32)
    parts = "fp32" if config.splits > 1 else dtype
    types = {
        "x_ptr": f"*{dtype}",
        "packed_ptr": "*u8",
        "scales_ptr": f"*{dtype}",
        "zeros_ptr": "*u8",
        "parts_ptr": f"*{parts}",
    }
    constants = {
        "ZERO_POINTS": True,
        "GROUP": 128,
        "PART": 32 // config.splits,
        "BLOCK_ROWS": config.block_rows,
        "BLOCK_OUTPUTS": config.block_outputs,
    }
    compiled = compile_for(
        compute_capability,
        _int4_linear,
        types,
        constants,
        lengths=("n_outputs", "depth"),
        aligned=aligned,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
    assert compiled.asm["cubin"]


@pytest.mark.parametrize("rows", [1, 64, 4097], ids=["one", "many", "cuBLAS"])
def test_replays_from_a_cuda_graph(rows: int, cuda: str) -> None:
    x, packed, scales = inputs(cuda, torch.float16, rows, 300, 4096)
    in_order = packed_weight(packed)
    kernels.int4_linear(x, in_order, scales)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = kernels.int4_linear(x, in_order, scales)
    x.copy_(torch.randn_like(x))
    graph.replay()
    assert_multiplied(out, x, packed, scales, weight_rounded=rounds_weight(rows, 300, cuda))


@pytest.mark.parametrize("rows", [1, 64])
def test_runs_on_the_current_stream(rows: int, cuda: str) -> None:
    x, packed, scales = inputs(cuda, torch.float16, rows, 300, 4096)
    in_order = packed_weight(packed)
    expected = x.clone()
    x.zero_()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)  # some 10 ms: a launch on another stream would read the zeros
        x.copy_(expected)
        out = kernels.int4_linear(x, in_order, scales)
    stream.synchronize()
    assert_multiplied(out, x, packed, scales)


def test_offsets_beyond_32_bits(cuda: str) -> None:
    outputs, depth = 40_000, 131_072  # 2.6e9 bytes of weights
    if torch.cuda.mem_get_info()[0] < 8 * 2**30:
        pytest.skip("needs 8 GiB of free GPU memory")
    packed = torch.empty(outputs // 16, depth // 64, 512, dtype=torch.uint8, device=cuda)
    last = torch.randint(0, 256, (64, depth // 2), dtype=torch.uint8, device=cuda)
    packed[-4:] = packed_weight(last)
    scales = torch.full((outputs, depth // 128), 0.01, dtype=torch.float16, device=cuda)
    for rows in (1, 17, 64):
        x = torch.randn(rows, depth, device=cuda).half()
        assert_multiplied(kernels.int4_linear(x, packed, scales)[:, -64:], x, last, scales[-64:])


def test_offsets_beyond_32_bits_of_the_dequantized_weight(cuda: str) -> None:
    outputs, depth = 20_000, 131_072  # 2.6e9 values
    if torch.cuda.mem_get_info()[0] < 16 * 2**30:
        pytest.skip("needs 16 GiB of free GPU memory")
    packed = torch.empty(outputs // 16, depth // 64, 512, dtype=torch.uint8, device=cuda)
    last = torch.randint(0, 256, (64, depth // 2), dtype=torch.uint8, device=cuda)
    packed[-4:] = packed_weight(last)
    scales = torch.full((outputs, depth // 128), 0.01, dtype=torch.float16, device=cuda)
    x = torch.randn(300, depth, device=cuda).half()
    out = kernels.int4_linear(x, packed, scales)[:, -64:]
    assert_multiplied(out, x, last, scales[-64:], weight_rounded=True)
