"""SwiGLU's product, silu(gate) * up, forward, and forward with backward: memory-bound."""

from warpbench import Case, KernelBenchmark, baseline, kernel
from warpbench.lazy import torch
from warpbench.torch_compile import compiled

from .training import gradients

_ROUNDING = {"bf16": 8e-3, "fp32": 1e-5}


def _case(rows: int, cols: int, passes: int, dtype: str = "bf16", device: str = "cuda") -> Case:
    """`passes` counts the tensors of the output's shape that are read or written."""
    element = 2 if dtype == "bf16" else 4
    return Case(
        f"{device}-{dtype}-r{rows}-c{cols}",
        device=device,
        dtype=dtype,
        tolerance=_ROUNDING[dtype],
        bytes=element * passes * rows * cols,
        flops=2 * passes * rows * cols,
        rows=rows,
        cols=cols,
    )


class Swiglu(KernelBenchmark):
    """gate and up (rows, cols); 14336 columns are those of Llama 3 8B."""

    cases = (_case(512, 14336, 3), _case(4096, 14336, 3), _case(64, 256, 3, "fp32", "cpu"))

    def inputs(self, case, draw):
        return {"gate": draw.activation(case.rows, case.cols), "up": draw.activation(case.rows, case.cols)}

    def reference(self, gate, up):
        return _formula(gate, up)

    @kernel(devices=["cuda"])
    def liger(self, gate, up):
        return _liger(gate, up)

    @baseline
    def eager(self, gate, up):
        return _formula(gate, up)

    @baseline(binds=True, devices=["cuda"])
    def torch_compile(self, gate, up):
        formula = compiled(_formula, gate, up)
        return lambda: formula(gate, up)


class SwigluBackward(KernelBenchmark):
    """Gradients of gate and up. Liger writes them over gate and up, so each call gets copies of these."""

    cases = (_case(4096, 14336, 5), _case(64, 256, 5, "fp32", "cpu"))

    def inputs(self, case, draw):
        gate, up, d_out = (draw.activation(case.rows, case.cols) for _ in range(3))
        return {"gate": gate, "up": up, "d_out": d_out}

    def reference(self, gate, up, d_out):
        return gradients(_formula, (gate, up), d_out)

    @kernel(devices=["cuda"])
    def liger(self, gate, up, d_out):
        return gradients(_liger, (gate.clone(), up.clone()), d_out)

    @baseline
    def eager(self, gate, up, d_out):
        return gradients(_formula, (gate.clone(), up.clone()), d_out)

    @baseline(binds=True, devices=["cuda"])
    def torch_compile(self, gate, up, d_out):
        formula = compiled(_formula, gate, up)
        return lambda: gradients(formula, (gate.clone(), up.clone()), d_out)


def _liger(gate, up):
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    return LigerSiLUMulFunction.apply(gate, up)


def _formula(gate, up):
    return torch.nn.functional.silu(gate) * up
