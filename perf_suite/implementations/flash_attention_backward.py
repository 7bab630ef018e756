"""Implementations of flash_attention_backward: the backward pass alone, from what the forward pass kept."""

import torch
from torch.nn.attention import SDPBackend

from warpbench.prepared import Prepared, UnavailableError

from ..inputs.flash_attention import AttentionInputs
from ..inputs.flash_attention_backward import AttentionGradientInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator
from .flash_attention import hidden

Gradients = tuple[torch.Tensor, ...]


def warpwatch(inputs: AttentionGradientInputs) -> Prepared:
    """The CUDA C++ or CPU kernels of the commit."""
    backward = warpwatch_operator("flash_attention_backward")
    return Prepared(run=lambda: backward(*inputs.tensors, **inputs.options))


def triton(inputs: AttentionGradientInputs) -> Prepared:
    """Their Triton twin."""
    backward = triton_operator("flash_attention_backward")
    return Prepared(run=lambda: backward(*inputs.tensors, **inputs.options))


def sdpa(inputs: AttentionGradientInputs) -> Prepared:
    """The backward pass of the backend that scaled_dot_product_attention chooses by itself.

    Raises UnavailableError where that backend has no fused backward pass, and as `sdpa_flash` does.
    """
    _refuse_other_meanings(inputs)
    q, k, v = inputs.q, inputs.k, inputs.v
    choice = SDPBackend(torch._fused_sdp_choice(q.detach().requires_grad_(), k, v, is_causal=inputs.causal))
    if choice == SDPBackend.FLASH_ATTENTION:
        return sdpa_flash(inputs)
    if choice == SDPBackend.EFFICIENT_ATTENTION:
        return _sdpa_efficient(inputs)
    if choice != SDPBackend.CUDNN_ATTENTION:
        raise UnavailableError(f"SDPA chose {choice.name.lower()}, whose backward pass is not called by itself here")
    operators = torch.ops.aten
    _, lse, *lengths, seed, offset, _ = operators._scaled_dot_product_cudnn_attention(
        q, k, v, None, True, 0.0, inputs.causal
    )
    lse = inputs.lse.float().reshape(lse.shape)
    arguments = (lse, seed, offset, None, *lengths, 0.0, inputs.causal)

    def run() -> Gradients:
        gradients: Gradients = operators._scaled_dot_product_cudnn_attention_backward(
            inputs.d_out, inputs.q, inputs.k, inputs.v, inputs.out, *arguments
        )
        return gradients

    return Prepared(run=run, backend=choice.name.lower())


def sdpa_flash(inputs: AttentionGradientInputs) -> Prepared:
    """The backward pass of scaled_dot_product_attention's FlashAttention-2 backend.

    Raises UnavailableError for fp32, key heads that are shared (its backward pass repeats them, and sums up outside), a
    window, and a causal mask over unequal lengths.
    """
    _refuse_other_meanings(inputs)
    if inputs.q.dtype == torch.float32:
        raise UnavailableError("FlashAttention-2 takes fp16 and bf16 alone")
    operators = torch.ops.aten
    _, _, *kept, _ = operators._scaled_dot_product_flash_attention(inputs.q, inputs.k, inputs.v, 0.0, inputs.causal)
    *lengths, seed, offset = kept
    *tensors, lse = inputs.tensors
    tensors.append(lse.float())

    def run() -> Gradients:
        gradients: Gradients = operators._scaled_dot_product_flash_attention_backward(
            *tensors, *lengths, 0.0, inputs.causal, seed, offset
        )
        return gradients

    return Prepared(run=run, backend=SDPBackend.FLASH_ATTENTION.name.lower())


def _sdpa_efficient(inputs: AttentionGradientInputs) -> Prepared:
    """The backward pass of scaled_dot_product_attention's memory-efficient backend, which takes fp32 too."""
    operators = torch.ops.aten
    _, lse, seed, offset = operators._scaled_dot_product_efficient_attention(
        inputs.q, inputs.k, inputs.v, None, True, 0.0, inputs.causal
    )
    lse[..., : inputs.q.shape[2]] = inputs.lse  # its rows are longer, to a multiple of 32
    arguments = (lse, seed, offset, 0.0, [True, True, True, False], inputs.causal)

    def run() -> Gradients:
        dq, dk, dv, _ = operators._scaled_dot_product_efficient_attention_backward(
            inputs.d_out, inputs.q, inputs.k, inputs.v, None, inputs.out, *arguments
        )
        return dq, dk, dv

    return Prepared(run=run, backend=SDPBackend.EFFICIENT_ATTENTION.name.lower())


def eager(inputs: AttentionGradientInputs) -> Prepared:
    """The formula in plain PyTorch, the weights going through memory."""
    q, k = inputs.q, inputs.k
    group, scale = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5
    as_forward = AttentionInputs(q=q, k=k, v=inputs.v, causal=inputs.causal, window=inputs.window)
    unseen = hidden(as_forward) if inputs.causal else None
    lse = inputs.lse.float()[..., None]

    def run() -> Gradients:
        keys, values = (x.repeat_interleave(group, dim=1) for x in (inputs.k, inputs.v))
        scores = (scale * q) @ keys.transpose(-2, -1)
        if unseen is not None:
            scores = scores.masked_fill(unseen, -torch.inf)
        weights = torch.exp(scores - lse).to(q.dtype)
        delta = (inputs.d_out.float() * inputs.out.float()).sum(-1, keepdim=True)
        d_scores = (weights * (inputs.d_out @ values.transpose(-2, -1) - delta)).to(q.dtype)
        dk = scale * (d_scores.transpose(-2, -1) @ q)
        dv = weights.transpose(-2, -1) @ inputs.d_out
        return (
            scale * (d_scores @ keys),
            *(x.unflatten(1, (-1, group)).sum(2) if group > 1 else x for x in (dk, dv)),
        )

    return Prepared(run=run)


def _refuse_other_meanings(inputs: AttentionGradientInputs) -> None:
    q, k = inputs.q, inputs.k
    if inputs.window is not None:
        raise UnavailableError("SDPA's fused backward passes know no window")
    if inputs.causal and q.shape[2] != k.shape[2]:
        raise UnavailableError("SDPA's causal mask is aligned top-left, so unequal lengths mean another result")
    if q.shape[1] != k.shape[1]:
        raise UnavailableError("SDPA repeats shared key heads and sums their gradients up outside its backward pass")
