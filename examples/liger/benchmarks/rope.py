"""Rotary position embedding of queries and keys, forward, and forward with backward: memory-bound."""

from warpbench import Case, KernelBenchmark, baseline, kernel
from warpbench.lazy import torch
from warpbench.torch_compile import compiled

from .training import gradients

_ROUNDING = {"bf16": 8e-3, "fp32": 1e-5}
_HEADS_Q, _HEADS_KV, _HEAD_DIM = 32, 8, 128  # Llama 3 8B
_BASE = 500_000.0  # of its frequencies


def _case(batch: int, seq: int, dtype: str = "bf16", device: str = "cuda") -> Case:
    """q and k read and written; cos and sin read."""
    element = 2 if dtype == "bf16" else 4
    elements = batch * seq * (_HEADS_Q + _HEADS_KV) * _HEAD_DIM
    return Case(
        f"{device}-{dtype}-b{batch}-s{seq}",
        device=device,
        dtype=dtype,
        tolerance=_ROUNDING[dtype],
        bytes=element * (2 * elements + 2 * seq * _HEAD_DIM),
        flops=3 * elements,
        batch=batch,
        seq=seq,
    )


def _heads(draw, case, heads):
    """Normal values (batch, heads, seq, head_dim) in the layout of a projection's output, (batch, seq, heads, …)."""
    return draw.activation(case.batch, case.seq, heads, _HEAD_DIM).transpose(1, 2)


def _angles(case, draw):
    frequency = _BASE ** (-torch.arange(0, _HEAD_DIM, 2, device=draw.device) / _HEAD_DIM)
    angle = torch.outer(torch.arange(case.seq, device=draw.device), frequency).repeat(1, 2)[None]
    return {"cos": draw.constant(angle.cos().to(draw.dtype)), "sin": draw.constant(angle.sin().to(draw.dtype))}


class Rope(KernelBenchmark):
    """q and k rotated by halves, as in Hugging Face's Llama.

    Liger rotates them in place, so each call gets copies.
    """

    cases = (_case(1, 2048), _case(4, 4096), _case(1, 16, "fp32", "cpu"))

    def inputs(self, case, draw):
        return {"q": _heads(draw, case, _HEADS_Q), "k": _heads(draw, case, _HEADS_KV), **_angles(case, draw)}

    def reference(self, q, k, cos, sin):
        return _formula(q, k, cos, sin)

    @kernel(devices=["cuda"])
    def liger(self, q, k, cos, sin):
        return _liger(q.clone(), k.clone(), cos, sin)

    @baseline
    def eager(self, q, k, cos, sin):
        return _formula(q.clone(), k.clone(), cos, sin)

    @baseline(binds=True, devices=["cuda"])
    def torch_compile(self, q, k, cos, sin):
        formula = compiled(_formula, q, k)
        return lambda: formula(q.clone(), k.clone(), cos, sin)


class RopeBackward(KernelBenchmark):
    """Gradients of q and k, which Liger writes over those of the outputs: each call gets copies of all four."""

    cases = (_case(4, 4096), _case(1, 16, "fp32", "cpu"))

    def inputs(self, case, draw):
        q, d_q = (_heads(draw, case, _HEADS_Q) for _ in range(2))
        k, d_k = (_heads(draw, case, _HEADS_KV) for _ in range(2))
        return {"q": q, "k": k, "d_q": d_q, "d_k": d_k, **_angles(case, draw)}

    def reference(self, **inputs):
        return _backward(_formula, **inputs)

    @kernel(devices=["cuda"])
    def liger(self, **inputs):
        return _backward(_liger, **inputs)

    @baseline
    def eager(self, **inputs):
        return _backward(_formula, **inputs)

    @baseline(binds=True, devices=["cuda"])
    def torch_compile(self, **inputs):
        formula = compiled(_formula, inputs["q"], inputs["k"])
        return lambda: _backward(formula, **inputs)


def _backward(operator, q, k, d_q, d_k, cos, sin):
    def rotated(q, k):
        return operator(q, k, cos, sin)

    return gradients(rotated, (q.clone(), k.clone()), (d_q.clone(), d_k.clone()))


def _liger(q, k, cos, sin):
    from liger_kernel.ops.rope import LigerRopeFunction

    return LigerRopeFunction.apply(q, k, cos, sin)


def _formula(q, k, cos, sin):
    return _rotated(q, cos, sin), _rotated(k, cos, sin)


def _rotated(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos[:, None] + torch.cat((-second, first), dim=-1) * sin[:, None]
