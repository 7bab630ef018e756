"""RMSNorm, forward, and forward with backward: memory-bound."""

from warpbench import Case, KernelBenchmark, baseline, kernel
from warpbench.lazy import torch
from warpbench.torch_compile import compiled

from .training import gradients

_EPS = 1e-6
_ROUNDING = {"bf16": 8e-3, "fp32": 1e-5}  # of the product, and of the normalised x before it


def _case(rows: int, cols: int, passes: int, dtype: str = "bf16", device: str = "cuda") -> Case:
    """`passes` counts the tensors of x's shape that are read or written."""
    element = 2 if dtype == "bf16" else 4
    return Case(
        f"{device}-{dtype}-r{rows}-c{cols}",
        device=device,
        dtype=dtype,
        tolerance=_ROUNDING[dtype],
        bytes=element * (passes * rows * cols + cols),
        flops=2 * passes * rows * cols,
        rows=rows,
        cols=cols,
    )


class RmsNorm(KernelBenchmark):
    """x (rows, cols) over the root mean square of its rows, times weight (cols)."""

    cases = (_case(2048, 4096, 2), _case(16384, 4096, 2), _case(64, 256, 2, "fp32", "cpu"))

    def inputs(self, case, draw):
        return {"x": draw.activation(case.rows, case.cols), "weight": draw.weight(case.cols)}

    def reference(self, x, weight):
        return _formula(x, weight)

    @kernel(devices=["cuda"])
    def liger(self, x, weight):
        return _liger(x, weight)

    @baseline
    def eager(self, x, weight):
        return torch.nn.functional.rms_norm(x, weight.shape, weight, _EPS)

    @baseline(binds=True, devices=["cuda"])
    def torch_compile(self, x, weight):
        formula = compiled(_formula, x, weight)
        return lambda: formula(x, weight)


class RmsNormBackward(KernelBenchmark):
    """Gradients of x and weight. Liger writes that of x over d_out, so each call gets a copy of d_out."""

    cases = (_case(16384, 4096, 4), _case(64, 256, 4, "fp32", "cpu"))

    def inputs(self, case, draw):
        x, weight = draw.activation(case.rows, case.cols), draw.weight(case.cols)
        return {"x": x, "weight": weight, "d_out": draw.activation(case.rows, case.cols)}

    def reference(self, x, weight, d_out):
        return gradients(_formula, (x, weight), d_out)

    @kernel(devices=["cuda"])
    def liger(self, x, weight, d_out):
        return gradients(_liger, (x, weight), d_out.clone())

    @baseline
    def eager(self, x, weight, d_out):
        def operator(x, weight):
            return torch.nn.functional.rms_norm(x, weight.shape, weight, _EPS)

        return gradients(operator, (x, weight), d_out.clone())

    @baseline(binds=True, devices=["cuda"])
    def torch_compile(self, x, weight, d_out):
        formula = compiled(_formula, x, weight)
        return lambda: gradients(formula, (x, weight), d_out.clone())


def _liger(x, weight):
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction

    return LigerRMSNormFunction.apply(x, weight, _EPS)


def _formula(x, weight):
    """As Llama computes it: the mean square in fp32, unless x is in fp64."""
    wide = x if x.dtype == torch.float64 else x.float()
    return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + _EPS)).to(x.dtype)
