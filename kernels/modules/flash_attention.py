"""Scaled dot-product attention as a module."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from ..operators.flash_attention import flash_attention

IMPLEMENTATIONS = ("warpwatch", "triton", "pytorch")


class FlashAttention(nn.Module):
    """softmax(scale q k^T + bias) v; q is (batch, heads_q, seq_q, head_dim), k, v (batch, heads_kv, seq_kv, head_dim).

    causal is aligned bottom-right: the last query sees every key, as when decoding with a cache. heads_kv divides
    heads_q; scale defaults to 1 / sqrt(head_dim). implementation "warpwatch" is the CUDA C++ or CPU kernel, "triton"
    its twin (on a GPU), "pytorch" scaled_dot_product_attention, with the same semantics. window (with causal only): a
    query sees only the `window` newest of its keys. The bias of a call, if given, broadcasts to (batch, heads_q, seq_q,
    seq_kv) in q's dtype, as in flash_attention; -inf in it hides a key, and a query that sees no key returns zeros. All
    three are differentiable, in the bias too; the twin only without a bias. The module has no parameters.
    Raises ValueError for another implementation and for a window without causal, RuntimeError for unsupported tensors.
    """

    def __init__(
        self,
        *,
        causal: bool = False,
        scale: float | None = None,
        window: int | None = None,
        implementation: str = "warpwatch",
    ) -> None:
        super().__init__()
        if implementation not in IMPLEMENTATIONS:
            raise ValueError(
                f"FlashAttention: implementation must be one of {', '.join(IMPLEMENTATIONS)}, got {implementation!r}"
            )
        if window is not None and (window < 1 or not causal):
            raise ValueError(f"FlashAttention: window must be positive and needs causal=True, got {window}")
        self.causal = causal
        self.window = window
        self.scale = scale
        self.implementation = implementation
        self._attend = _attention(implementation)

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """A new tensor of q's shape and dtype."""
        return self._attend(q, k, v, causal=self.causal, scale=self.scale, window=self.window, bias=bias)

    def extra_repr(self) -> str:
        return f"causal={self.causal}, scale={self.scale}, window={self.window}, implementation={self.implementation!r}"


def _attention(implementation: str) -> Callable[..., torch.Tensor]:
    if implementation == "pytorch":
        return _pytorch_attention
    if implementation == "triton":
        from ..triton.flash_attention import flash_attention as twin

        return twin
    return flash_attention


def _pytorch_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
    scale: float | None,
    window: int | None,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    grouped = q.shape[1] != k.shape[1]
    seq_q, seq_kv = q.shape[2], k.shape[2]
    if bias is None and (not causal or (seq_q == seq_kv and window is None)):
        return scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped)
    mask = q.new_zeros(seq_q, seq_kv) if bias is None else bias
    if causal:  # PyTorch's own causal mask is aligned top-left
        seen = torch.ones(seq_q, seq_kv, dtype=torch.bool, device=q.device).tril(seq_kv - seq_q)
        if window is not None:
            seen = seen.triu(seq_kv - seq_q + 1 - window)
        mask = mask.masked_fill(~seen, -torch.inf)
    # Rows that see no key are zero, so neither they nor their gradients are NaN.
    sees_nothing = (mask == -torch.inf).all(dim=-1, keepdim=True)
    mask = mask.masked_fill(sees_nothing, 0)
    out = scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=grouped)
    return out.masked_fill(sees_nothing, 0)
