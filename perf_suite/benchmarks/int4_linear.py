"""int4_linear (W4A16): decode, memory-bound until some tens of rows; and prefill, through cuBLAS."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warpbench import Case, Prepared, UnavailableError, baseline
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch
from warpbench.torch_compile import compiled

from .. import warpwatch_benchmark
from ..compiled.watched_kernels import Watched
from ..language_models import LLAMA_2_7B, LLAMA_2_13B, LLAMA_2_70B, LLAMA_3_8B, LanguageModel
from ..warpwatch_operators import library

if TYPE_CHECKING:
    from warpbench.draw import Draw

_GROUP_SIZE = 128
# The cuBLAS baseline, and warpwatch where rows are many, round the weight itself to fp16 (3e-4; bf16: eight times
# that), and cuBLAS may add its split-K parts in fp16.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}


def case(
    device: str,
    dtype: str,
    energy_of: Sequence[str] = (),
    *,
    depth: int,
    outputs: int,
    rows: int = 1,
    group_size: int = _GROUP_SIZE,
    zeros: bool = False,
) -> Case:
    """x (rows, depth) by an INT4 weight (outputs, depth). Raises ValueError for a depth that is no whole groups."""
    if depth % group_size:
        raise ValueError(f"depth ({depth}) must be a multiple of the group size, {group_size}")
    group = "" if group_size == _GROUP_SIZE else f"-g{group_size}"
    work = cost(
        rows=rows,
        outputs=outputs,
        depth=depth,
        group_size=group_size,
        element_bytes=ELEMENT_BYTES[dtype],
        zero_points=zeros,
    )
    return Case(
        f"{device}-{dtype}-k{depth}-n{outputs}-m{rows}{group}{'-zeros' if zeros else ''}",
        device=device,
        dtype=dtype,
        tolerance=_TOLERANCE[dtype],
        bytes=work.bytes,
        flops=work.flops,
        energy_of=energy_of,
        rows=rows,
        outputs=outputs,
        depth=depth,
        group_size=group_size,
        zeros=zeros,
    )


def cost(
    *, rows: int, outputs: int, depth: int, group_size: int, element_bytes: int, zero_points: bool = False
) -> Cost:
    """A (rows, depth) by (depth, outputs) product; half a byte a weight, one scale and perhaps a byte more a group."""
    weight = outputs * depth // 2 + outputs * (depth // group_size) * (element_bytes + zero_points)
    activations = (rows * depth + rows * outputs) * element_bytes
    return Cost(flops=2 * rows * outputs * depth, bytes=weight + activations)


def int4_linear(
    x: torch.Tensor,
    packed: torch.Tensor,
    scales: torch.Tensor,
    group_size: int = 128,
    zero_points: torch.Tensor | None = None,
) -> torch.Tensor:
    """x @ dequantised(weight)^T in float64.

    x (..., K); packed (N, K / 2) uint8; scales and zero_points (N, K / group_size); out (..., N).
    """
    return x.double() @ dequantised(packed, scales, group_size, zero_points).T


def dequantised(
    packed: torch.Tensor, scales: torch.Tensor, group_size: int = 128, zero_points: torch.Tensor | None = None
) -> torch.Tensor:
    """The (N, K) weight in float64: (nibble - its group's zero point, or 8) * its scale, low nibble at even k."""
    zeros = 8.0 if zero_points is None else zero_points.double().repeat_interleave(group_size, dim=-1)
    return (_nibbles(packed).double() - zeros) * scales.double().repeat_interleave(group_size, dim=-1)


def _layer(
    model: LanguageModel,
    name: str,
    energy_of: Sequence[str] = (),
    *,
    rows: int,
    group_size: int = _GROUP_SIZE,
    zeros: bool = False,
) -> Case:
    shape = model.linear(name)
    return case(
        "cuda",
        "fp16",
        energy_of,
        depth=shape.depth,
        outputs=shape.outputs,
        rows=rows,
        group_size=group_size,
        zeros=zeros,
    )


class Int4Linear(warpwatch_benchmark.OperatorBenchmark):
    """out (rows, N) = x @ dequantised(weight)^T.

    x (rows, K); packed (N, K / 2) uint8, low nibble at even k; scales (N, K / group_size) in x's dtype; zero_points
    (N, K / group_size) uint8, or None for 8 everywhere.
    """

    watched = Watched(
        kernels=(
            "int4_linear_batch",
            "int4_linear_decode",
            "int4_linear_dequantize",
            "int4_linear_few",
            "int4_linear_many",
            "int4_linear_sum",
            "int4_linear_tall",
            "int4_linear_wide",
        ),
        twins=("_int4_linear",),
        sources=(
            "int4_linear/int4_linear_dequantize.cu",
            "int4_linear/int4_linear_few_sm90a.cu",
            "int4_linear/int4_linear_many_sm90a.cu",
            "int4_linear/int4_linear_sm75.cu",
            "int4_linear/int4_linear_sm80.cu",
            "int4_linear/int4_linear_tall_sm90a.cu",
            "int4_linear/int4_linear_wide_sm90a.cu",
        ),
    )
    case = staticmethod(case)
    cases = (
        _layer(LLAMA_3_8B, "attention_out", rows=1),
        _layer(LLAMA_3_8B, "attention_out", rows=16),
        _layer(LLAMA_3_8B, "qkv", rows=1),
        _layer(LLAMA_3_8B, "up", ("warpwatch", "cublas"), rows=1),
        _layer(LLAMA_3_8B, "up", rows=8),
        _layer(LLAMA_3_8B, "up", rows=16),
        _layer(LLAMA_3_8B, "up", rows=64),
        _layer(LLAMA_3_8B, "up", rows=256),
        _layer(LLAMA_3_8B, "up", rows=2048),
        _layer(LLAMA_3_8B, "up", rows=1, zeros=True),
        _layer(LLAMA_3_8B, "up", rows=1, group_size=64),
        _layer(LLAMA_3_8B, "down", rows=1),
        _layer(LLAMA_3_8B, "down", rows=16),
        _layer(LLAMA_2_7B, "up", rows=1),
        _layer(LLAMA_2_7B, "up", rows=16),
        _layer(LLAMA_2_7B, "down", rows=1),
        _layer(LLAMA_2_7B, "down", rows=16),
        _layer(LLAMA_2_13B, "attention_out", rows=1),
        _layer(LLAMA_2_13B, "up", rows=1),
        _layer(LLAMA_2_13B, "up", rows=16),
        _layer(LLAMA_2_70B, "attention_out", rows=1),
        _layer(LLAMA_2_70B, "attention_out", rows=16),
        _layer(LLAMA_2_70B, "up", rows=1),
        case("cpu", "fp32", depth=1024, outputs=1024, rows=1),
        case("cpu", "fp32", depth=1024, outputs=1024, rows=8),
        case("cpu", "fp32", depth=1024, outputs=1024, rows=8, group_size=64, zeros=True),
    )
    smallest = {"depth": 128, "outputs": 128}

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal x, uniform nibbles, and scales near 0.2 / sqrt(K), so that results have a variance near one.

        The nibbles are drawn, not quantised from a weight: the kernels' own tests judge their quantiser.
        """
        groups = case.outputs, case.depth // case.group_size
        spread = draw.uniform(*groups, low=0.5, high=1.5, dtype=torch.float32)
        return {
            "x": draw.activation(case.rows, case.depth),
            "packed": draw.constant(draw.integers(0, 256, (case.outputs, case.depth // 2), torch.uint8)),
            "scales": draw.constant((spread * 0.2 * case.depth**-0.5).to(draw.dtype)),
            "zero_points": draw.constant(draw.integers(6, 10, groups, torch.uint8)) if case.zeros else None,
            "group_size": case.group_size,
        }

    def reference(self, **inputs: Any) -> torch.Tensor:
        """The product with the dequantised weight."""
        return int4_linear(**inputs)

    def call_of(
        self,
        linear: Callable[..., torch.Tensor],
        x: torch.Tensor,
        packed: torch.Tensor,
        scales: torch.Tensor,
        zero_points: torch.Tensor | None,
        group_size: int,
    ) -> Callable[[], Any]:
        """What is timed."""
        weight = _in_kernel_order(packed)
        if zero_points is None:  # as every commit takes it
            return lambda: linear(x, weight, scales, group_size=group_size)
        if "zero_points" not in inspect.signature(linear).parameters:
            raise UnavailableError("int4_linear of this commit takes no zero points")
        return lambda: linear(x, weight, scales, zero_points, group_size=group_size)

    @baseline(binds=True, devices=["cuda"])
    def cublas(self, x: torch.Tensor, **weight: Any) -> Callable[[], Any]:
        """The product with the weight dequantised ahead, in x's dtype: four times the bytes."""
        wide = dequantised(**weight).to(x.dtype)
        return lambda: torch.nn.functional.linear(x, wide)

    @baseline
    def eager(self, **inputs: Any) -> torch.Tensor:
        """Dequantise in every call, then multiply, in plain PyTorch."""
        return _formula(**inputs)

    @baseline(binds=True, devices=["cuda"])
    def torch_compile(self, **inputs: Any) -> Callable[[], Any]:
        """The same through torch.compile."""
        formula = compiled(_formula, inputs["x"], inputs["packed"], inputs["scales"])
        return lambda: formula(**inputs)

    @baseline(binds=True, devices=["cuda"])
    def marlin(self, **inputs: Any) -> Prepared:
        """Marlin of vLLM or sglang, the weight repacked ahead. Raises UnavailableError for zero points and fp32."""
        x, packed, scales, zero_points, group_size = inputs.values()
        if zero_points is not None or x.dtype == torch.float32:
            raise UnavailableError("Marlin is called in fp16 and bf16, and without zero points")
        outputs, depth = packed.shape[0], 2 * packed.shape[1]
        # GPTQ's layout: 8 values of k in an int32, the first in its lowest bits, (K / 8, N).
        rows = packed.view(torch.int32).T.contiguous()
        try:
            return _marlin_of_vllm(x, rows, scales.T.contiguous(), outputs, depth, group_size)
        except ImportError:
            return _marlin_of_sglang(x, rows, scales.T.contiguous(), outputs, depth, group_size)


def _marlin_of_vllm(
    x: torch.Tensor, rows: torch.Tensor, scales: torch.Tensor, outputs: int, depth: int, group_size: int
) -> Prepared:
    from vllm._custom_ops import gptq_marlin_repack
    from vllm.model_executor.layers.quantization.utils import marlin_utils
    from vllm.scalar_type import scalar_types

    none = marlin_utils.marlin_make_empty_g_idx(x.device)  # no order of its own, no zero points
    weight = gptq_marlin_repack(rows, none, depth, outputs, 4)
    of_groups = marlin_utils.marlin_permute_scales(scales, depth, outputs, group_size)
    workspace = marlin_utils.marlin_make_workspace_new(x.device)
    linear, dtype = marlin_utils.apply_gptq_marlin_linear, scalar_types.uint4b8
    return Prepared(
        run=lambda: linear(x, weight, of_groups, none, none, none, workspace, dtype, outputs, depth, True),
        backend=library("vllm"),
    )


def _marlin_of_sglang(
    x: torch.Tensor, rows: torch.Tensor, scales: torch.Tensor, outputs: int, depth: int, group_size: int
) -> Prepared:
    """sglang compiles Marlin at the first call. Its marlin_utils is not imported, since that imports the server."""
    from sgl_kernel.scalar_type import scalar_types

    try:
        from sglang.kernels.ops.gemm.gptq_marlin import gptq_marlin_gemm
        from sglang.kernels.ops.quantization.gptq_marlin_repack import gptq_marlin_repack
    except ImportError:  # releases before the operators moved
        from sglang.jit_kernel.gptq_marlin import gptq_marlin_gemm
        from sglang.jit_kernel.gptq_marlin_repack import gptq_marlin_repack

    none = torch.empty(0, dtype=torch.int32, device=x.device)
    weight = gptq_marlin_repack(rows, none, depth, outputs, 4)
    order = torch.arange(64, device=x.device).view(8, 8).T.flatten()  # of scales in groups, as marlin_permute_scales
    of_groups = scales.view(-1, 64)[:, order].view(depth // group_size, outputs).contiguous()
    processors = torch.cuda.get_device_properties(x.device).multi_processor_count
    workspace = torch.zeros(4 * processors, dtype=torch.int32, device=x.device)
    shape = x.shape[0], outputs, depth

    def run() -> torch.Tensor:
        return gptq_marlin_gemm(
            x,
            None,
            weight,
            of_groups,
            None,
            None,
            none,
            none,
            workspace,
            scalar_types.uint4b8,
            *shape,
            use_fp32_reduce=True,
        )

    return Prepared(run=run, backend=f"Marlin of {library('sglang')}")


def _in_kernel_order(packed: torch.Tensor) -> torch.Tensor:
    # Commits that shuffle the weight do so ahead of any call; older ones take rows of two values a byte.
    try:
        from warpwatch.kernels import pack_int4
    except ImportError:
        return packed
    return pack_int4(_nibbles(packed))


def _nibbles(packed: torch.Tensor) -> torch.Tensor:
    return torch.stack((packed & 0xF, packed >> 4), dim=-1).flatten(-2)


def _formula(
    x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor | None, group_size: int
) -> torch.Tensor:
    nibbles = torch.stack((packed & 0xF, packed >> 4), dim=-1).view((*scales.shape, group_size))
    zeros = 8.0 if zero_points is None else zero_points.to(x.dtype)[..., None]
    weight = (nibbles.to(x.dtype) - zeros) * scales[..., None]
    return torch.nn.functional.linear(x, weight.flatten(-2))
