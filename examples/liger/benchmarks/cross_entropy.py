"""Cross entropy of logits, forward, and forward with backward: memory-bound."""

import inspect

from warpbench import Case, KernelBenchmark, baseline, kernel
from warpbench.lazy import torch
from warpbench.torch_compile import compiled

from .training import gradients

_ROUNDING = {"bf16": 8e-3, "fp32": 1e-5}


def _case(tokens: int, vocabulary: int, passes: int, dtype: str = "bf16", device: str = "cuda") -> Case:
    """`passes` counts how often the logits' shape is read or written."""
    element = 2 if dtype == "bf16" else 4
    return Case(
        f"{device}-{dtype}-t{tokens}-v{vocabulary}",
        device=device,
        dtype=dtype,
        tolerance=_ROUNDING[dtype],
        bytes=element * passes * tokens * vocabulary + 8 * tokens,
        flops=4 * passes * tokens * vocabulary,
        tokens=tokens,
        vocabulary=vocabulary,
    )


def _inputs(case, draw):
    return {
        "logits": draw.activation(case.tokens, case.vocabulary),
        "target": draw.constant(draw.integers(0, case.vocabulary, (case.tokens,))),
    }


class CrossEntropy(KernelBenchmark):
    """The mean loss of logits (tokens, vocabulary) and target (tokens); vocabularies of Llama 2 and Llama 3.

    Liger before 0.6 writes gradients over the logits, so each call gets a copy. Liger counts targets on the host, so no
    CUDA graph captures it.
    """

    cases = (_case(4096, 32000, 1), _case(1024, 128256, 1), _case(64, 256, 1, "fp32", "cpu"))

    def inputs(self, case, draw):
        return _inputs(case, draw)

    def reference(self, logits, target):
        return _formula(logits, target)

    @kernel(devices=["cuda"], capturable=False)
    def liger(self, logits, target):
        return _liger(logits.clone(), target)

    @baseline
    def eager(self, logits, target):
        return _formula(logits.clone(), target)

    @baseline(binds=True, devices=["cuda"])
    def torch_compile(self, logits, target):
        formula = compiled(_formula, logits, target)
        return lambda: formula(logits.clone(), target)


class CrossEntropyBackward(KernelBenchmark):
    """The gradient of the logits. Liger writes it over the logits, so each call gets a copy of these."""

    cases = (_case(1024, 128256, 2), _case(64, 256, 2, "fp32", "cpu"))

    def inputs(self, case, draw):
        return _inputs(case, draw)

    def reference(self, logits, target):
        return _backward(_formula, logits, target)

    @kernel(devices=["cuda"], capturable=False)
    def liger(self, logits, target):
        return _backward(_liger, logits, target)

    @baseline
    def eager(self, logits, target):
        return _backward(_formula, logits, target)

    @baseline(binds=True, devices=["cuda"])
    def torch_compile(self, logits, target):
        formula = compiled(_formula, logits, target)
        return lambda: _backward(formula, logits, target)


def _backward(operator, logits, target):
    def loss(logits):
        return operator(logits, target)

    return gradients(loss, (logits.clone(),))


def _liger(logits, target):
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction

    # From 0.5.5 the weights of the classes come before the index that is ignored.
    has_weight = "weight" in inspect.signature(LigerCrossEntropyFunction.forward).parameters
    out = LigerCrossEntropyFunction.apply(logits, target, *([None] if has_weight else []), -100)
    return out[0] if isinstance(out, tuple) else out


def _formula(logits, target):
    return torch.nn.functional.cross_entropy(logits, target)
