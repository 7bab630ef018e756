"""rms_norm: memory-bound."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case, Prepared, UnavailableError, baseline, kernel
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch
from warpbench.torch_compile import compiled

from .. import warpwatch_benchmark
from ..compiled.watched_kernels import Watched
from ..warpwatch_operators import library, triton_operator, warpwatch_operator

if TYPE_CHECKING:
    from warpbench.draw import Draw
    from warpbench.output import Output

# Rounding the result to fp16 costs about 2.8e-4 (bf16: eight times that). The fp32 arithmetic adds far less.
TOLERANCE = {"fp16": 1e-3, "bf16": 8e-3, "fp32": 1e-6}


def cost(*, rows: int, cols: int, residual: bool, element_bytes: int) -> Cost:
    """Square, sum, scale and weight an element; rows read, out written; with a residual one sum, read and written."""
    elements = rows * cols
    moved = (4 if residual else 2) * elements + cols
    return Cost(flops=(5 if residual else 4) * elements, bytes=moved * element_bytes)


def case(device: str, dtype: str, *, rows: int, cols: int = 4096, residual: bool = False) -> Case:
    """Root-mean-square normalisation of rows; with a residual, of its sum with them, which is a second output."""
    work = cost(rows=rows, cols=cols, residual=residual, element_bytes=ELEMENT_BYTES[dtype])
    return Case(
        f"{device}-{dtype}-r{rows}-c{cols}{'-residual' if residual else ''}",
        device=device,
        dtype=dtype,
        tolerance=TOLERANCE[dtype],
        bytes=work.bytes,
        flops=work.flops,
        rows=rows,
        cols=cols,
        residual=residual,
    )


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """x times weight over the root of its rows' mean square, in float64. Zhang and Sennrich (2019)."""
    x = x.double()
    return x * weight.double() / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """(rms_norm(total), total), total being x + residual as x's dtype holds it."""
    total = (x.float() + residual.float()).to(x.dtype)
    return rms_norm(total, weight, eps), total.double()


class RowNorm(warpwatch_benchmark.WarpwatchBenchmark, ABC):
    """A normalisation of rows, of whose sum with a residual where there is one: the operator add_..., two outputs."""

    smallest = {"rows": 1, "cols": 128}
    reference_in_float64 = False  # the sum with the residual is rounded to x's dtype

    @staticmethod
    @abstractmethod
    def formula(*unnamed: Any, **inputs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """The normalised rows and the sum, in plain PyTorch."""

    @kernel(binds=True)
    def warpwatch(self, **inputs: Any) -> Callable[[], Any]:
        """The CUDA C++ or CPU kernel of the commit."""
        return self._call_of(warpwatch_operator, **inputs)

    @kernel(binds=True, devices=["cuda"])
    def triton(self, **inputs: Any) -> Callable[[], Any]:
        """Its Triton twin."""
        return self._call_of(functools.partial(triton_operator, self.operator), **inputs)

    @baseline
    def eager(self, *unnamed: Any, **inputs: Any) -> Output:
        """The formula in plain PyTorch."""
        outputs = self.formula(*unnamed, **inputs)
        return outputs[0] if inputs["residual"] is None else outputs

    @baseline(binds=True, devices=["cuda"])
    def torch_compile(self, **inputs: Any) -> Callable[[], Any]:
        """The formula through torch.compile."""
        formula = compiled(self.formula, *(value for value in inputs.values() if value is not None))
        if inputs["residual"] is None:
            return lambda: formula(**inputs)[0]
        return lambda: formula(**inputs)

    def _call_of(
        self, operator: Callable[[str], Any], x: torch.Tensor, residual: torch.Tensor | None, **rest: torch.Tensor
    ) -> Callable[[], Any]:
        adds = residual is not None
        function = operator(f"add_{self.operator}" if adds else self.operator)
        arguments = (x, residual, *rest.values()) if adds else (x, *rest.values())
        return lambda: function(*arguments)


class RmsNorm(RowNorm):
    """Normalised rows and, where there is a residual, its sum with x; x, residual, out (rows, cols), weight (cols)."""

    watched = Watched(
        kernels=(
            "rms_norm_any",
            "rms_norm_in_registers",
        ),
        twins=("_rms_norm",),
        sources=("rms_norm/rms_norm.cu",),
    )
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", rows=16384),  # 268 MB
        case("cuda", "fp16", rows=32768),
        case("cuda", "fp16", rows=16384, residual=True),
        case("cuda", "bf16", rows=16384, residual=True),
        case("cuda", "fp32", rows=16384),
        case("cuda", "fp16", rows=8192, cols=8192, residual=True),  # Llama 2 70B
        case("cuda", "fp16", rows=524288, cols=128),  # queries or keys, each head by itself
        case("cuda", "fp16", rows=2048, residual=True),  # a prefill
        case("cuda", "fp16", rows=64, residual=True),  # a decode step of 64 sequences
        case("cuda", "fp16", rows=1, residual=True),
        case("cpu", "fp32", rows=256, cols=1024),
        case("cpu", "fp32", rows=256, cols=1024, residual=True),
    )

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal rows, and weights between 0.5 and 1.5."""
        return {
            "x": draw.activation(case.rows, case.cols),
            "residual": draw.activation(case.rows, case.cols) if case.residual else None,
            "weight": draw.constant(draw.uniform(case.cols, low=0.5, high=1.5)),
        }

    def reference(self, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor) -> Output:
        """rms_norm or add_rms_norm, in float64."""
        return rms_norm(x, weight) if residual is None else add_rms_norm(x, residual, weight)

    @baseline
    def eager(self, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor) -> Output:
        """PyTorch's own rms_norm, after an addition where there is a residual."""
        total = x if residual is None else x + residual
        out = torch.nn.functional.rms_norm(total, weight.shape, weight, 1e-6)
        return out if residual is None else (out, total)

    @staticmethod
    def formula(
        x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """In plain PyTorch, fp32 inside."""
        total = x if residual is None else x + residual
        wide = total.float()
        scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + 1e-6)
        return (wide * scale * weight.float()).to(x.dtype), total

    @baseline(binds=True, devices=["cuda"])
    def liger(self, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor) -> Prepared:
        """Liger-Kernel's Triton kernels."""
        if residual is None:
            from liger_kernel.ops.rms_norm import LigerRMSNormFunction

            norm = LigerRMSNormFunction.apply
            return Prepared(run=lambda: norm(x, weight, 1e-6), backend=library("liger-kernel"))
        from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction

        add_norm = LigerFusedAddRMSNormFunction.apply
        return Prepared(run=lambda: add_norm(x, residual, weight, 1e-6), backend=library("liger-kernel"))

    @baseline(binds=True, devices=["cuda"])
    def flashinfer(self, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor) -> Prepared:
        """FlashInfer's rmsnorm. Raises UnavailableError for fp32, and for a residual, which FlashInfer overwrites."""
        from flashinfer.norm import rmsnorm

        if residual is not None or x.dtype == torch.float32:
            raise UnavailableError("FlashInfer's rmsnorm takes fp16 and bf16, and a residual only in place")
        return Prepared(run=lambda: rmsnorm(x, weight, 1e-6), backend=library("flashinfer-python"))

    @baseline(binds=True, devices=["cuda"])
    def vllm(self, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor) -> Prepared:
        """vLLM's rms_norm. Raises UnavailableError for a residual, which vLLM overwrites."""
        from vllm._custom_ops import rms_norm as norm

        if residual is not None:
            raise UnavailableError("vLLM's rms_norm takes a residual only in place")

        def run() -> torch.Tensor:
            out = torch.empty_like(x)
            norm(out, x, weight, 1e-6)
            return out

        return Prepared(run=run, backend=library("vllm"))
