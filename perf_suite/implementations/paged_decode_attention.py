"""Implementations of paged_decode_attention. The baselines read a contiguous cache or gather the pages first."""

import torch
from torch.nn.attention import SDPBackend
from torch.nn.functional import scaled_dot_product_attention

from warpbench.prepared import Prepared

from ..inputs.paged_decode_attention import PagedDecodeInputs
from ..warpwatch_operators import triton_operator, warpwatch_operator


def warpwatch(inputs: PagedDecodeInputs) -> Prepared:
    """The CUDA C++ or CPU kernel of the commit."""
    attention = warpwatch_operator("paged_decode_attention")
    i = inputs
    return Prepared(run=lambda: attention(i.q, i.k_pages, i.v_pages, i.block_table, i.lengths))


def triton(inputs: PagedDecodeInputs) -> Prepared:
    """Its Triton twin."""
    attention = triton_operator("paged_decode_attention")
    i = inputs
    return Prepared(run=lambda: attention(i.q, i.k_pages, i.v_pages, i.block_table, i.lengths))


def sdpa(inputs: PagedDecodeInputs) -> Prepared:
    """What PyTorch has for pages: gathering them by the table, then scaled_dot_product_attention.

    It gets a mask where not every token sees every place of the pages, and chooses its backend by itself.
    """
    mask = None if _all_seen(inputs) else _seen(inputs)
    grouped = inputs.q.shape[1] != inputs.k_pages.shape[1]
    choice = torch._fused_sdp_choice(inputs.q, *inputs.contiguous(), attn_mask=mask, enable_gqa=grouped)

    def run() -> torch.Tensor:
        k, v = inputs.contiguous()
        return scaled_dot_product_attention(inputs.q, k, v, attn_mask=mask, enable_gqa=grouped)

    return Prepared(run=run, backend=SDPBackend(choice).name.lower())


def eager(inputs: PagedDecodeInputs) -> Prepared:
    """The same gathering, then scores, mask, softmax and product in plain PyTorch."""
    q = inputs.q
    batch, heads_q, seq_q, head_dim = q.shape
    heads_kv = inputs.k_pages.shape[1]
    group = heads_q // heads_kv
    hidden = None if _all_seen(inputs) else ~_seen(inputs).repeat(1, 1, group, 1)

    def run() -> torch.Tensor:
        k, v = inputs.contiguous()
        packed = q.reshape(batch, heads_kv, group * seq_q, head_dim)
        scores = (packed @ k.transpose(-2, -1)) * head_dim**-0.5
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        return (torch.softmax(scores, dim=-1) @ v).view(q.shape)

    return Prepared(run=run)


def _all_seen(inputs: PagedDecodeInputs) -> bool:
    """Whether one token of each sequence sees all places of its pages."""
    room = inputs.block_table.shape[1] * inputs.k_pages.shape[2]
    return inputs.q.shape[2] == 1 and bool((inputs.lengths == room).all())


def _seen(inputs: PagedDecodeInputs) -> torch.Tensor:
    """(batch, 1, seq_q, room): which token sees which key."""
    room = inputs.block_table.shape[1] * inputs.k_pages.shape[2]
    seq_q = inputs.q.shape[2]
    token = torch.arange(seq_q, device=inputs.q.device)
    last = inputs.lengths[:, None] - seq_q + token  # (batch, seq_q)
    return (torch.arange(room, device=inputs.q.device) <= last[..., None])[:, None]
