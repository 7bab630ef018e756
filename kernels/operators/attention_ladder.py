"""The steps before flash_attention, to read and to compare with it: kernels/csrc/attention_ladder."""

from __future__ import annotations

import torch

from ..extension import load_operator


def naive_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """softmax(scale q k^T) v as in the textbook, one warp per query, with its scores in global memory.

    q (batch, heads_q, seq_q, head_dim); k, v (batch, heads_kv, seq_kv, head_dim), heads_kv dividing heads_q; float16,
    bfloat16 or float32; head_dim a multiple of 8 up to 256, and contiguous; other strides free. On a GPU it allocates
    4 batch heads_q seq_q seq_kv bytes besides its result: for comparison, not for use.
    Raises RuntimeError for an unsupported shape, dtype, device or stride.
    """
    return _naive_attention(q, k, v, causal, scale)


def tiled_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """softmax(scale q k^T) v by tiles in shared memory, without tensor cores; otherwise like flash_attention.

    Shapes, dtypes and errors as in naive_attention, but head_dim is 64, 96, 128 or 256 on a GPU.
    Dao, Fu, Ermon, Rudra and Re, "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness" (2022).
    """
    return _tiled_attention(q, k, v, causal, scale)


_naive_attention = load_operator("naive_attention")
_tiled_attention = load_operator("tiled_attention")
