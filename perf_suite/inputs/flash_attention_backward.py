"""Inputs of flash_attention_backward."""

from dataclasses import dataclass
from typing import Any

import torch

from warpbench.workload import Workload

from ..references.flash_attention_backward import flash_attention_backward, output_and_lse
from . import flash_attention


@dataclass(slots=True, kw_only=True)
class AttentionGradientInputs:
    """d_out, q and out (batch, heads_q, seq_q, head_dim); k, v (batch, heads_kv, seq_kv, head_dim); the default scale.

    out and lse, (batch, heads_q, seq_q) in float64, are the forward pass's of the q, k, v that were drawn first. They
    stay when those are drawn again: the gradients are a function of all six, and weights exp(scale q k^T - lse) of
    other scores of the same distribution are of the same size.
    """

    d_out: torch.Tensor
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: torch.Tensor
    lse: torch.Tensor
    causal: bool
    window: int | None

    @property
    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """All six, in the operator's order."""
        return (self.d_out, self.q, self.k, self.v, self.out, self.lse)

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments of the call."""
        return {"causal": self.causal} if self.window is None else {"causal": self.causal, "window": self.window}

    def activations(self) -> tuple[torch.Tensor, ...]:
        """Those that are drawn."""
        return (self.d_out, self.q, self.k, self.v)

    def expected(self) -> tuple[torch.Tensor, ...]:
        """dq, dk and dv of this call."""
        return flash_attention_backward(*self.tensors, self.causal, self.window)


def make(workload: Workload, generator: torch.Generator, dtype: torch.dtype) -> AttentionGradientInputs:
    """Normal q, k, v and d_out."""
    forward = flash_attention.make(workload, generator, dtype)
    out, lse = output_and_lse(forward.q, forward.k, forward.v, forward.causal, forward.window)
    return AttentionGradientInputs(
        d_out=torch.randn(forward.q.shape, generator=generator, device=generator.device, dtype=dtype),
        q=forward.q,
        k=forward.k,
        v=forward.v,
        out=out.to(dtype),
        lse=lse,
        causal=forward.causal,
        window=forward.window,
    )
