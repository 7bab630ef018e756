"""The steps before flash_attention, to read and to compare with it: kernels/csrc/attention_ladder."""

from __future__ import annotations

import torch

from ..extension import load_operator


def naive_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """softmax(scale q k^T) v as the textbook has it, a warp a query, its scores in memory.

    q (batch, heads_q, seq_q, head_dim); k, v (batch, heads_kv, seq_kv, head_dim), heads_kv dividing heads_q; float16,
    bfloat16 or float32; head_dim a multiple of 8 up to 256, and contiguous; other strides free. On a GPU it takes
    4 batch heads_q seq_q seq_kv bytes beside its result: for comparison, not for use.
    Raises RuntimeError with a sentence for a shape, dtype, device or stride it does not take.
    """
    return _naive_attention(q, k, v, causal, scale)


def tiled_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """softmax(scale q k^T) v by tiles in shared memory, without tensor cores; as flash_attention otherwise.

    Shapes, dtypes and errors as naive_attention's, but head_dim is 64, 96, 128 or 256 on a GPU.
    Dao, Fu, Ermon, Rudra and Re, "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness" (2022).
    """
    return _tiled_attention(q, k, v, causal, scale)


_naive_attention = load_operator("naive_attention")
_tiled_attention = load_operator("tiled_attention")
