"""What attention's twins ask of their tensors, and of the GPU."""

from __future__ import annotations

import torch

HEAD_DIMS = (16, 32, 64, 96, 128, 256)  # 96 as three quarters of a block of 128: Triton's are powers of two
_INTERPRETED_AS = 80  # the compute capability whose config the interpreter takes


def check_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, window: int | None) -> None:
    """Of q, k and v of four dimensions. Raises RuntimeError with a sentence."""
    batch, heads_q, _, head_dim = q.shape
    heads_kv, seq_kv = k.shape[1], k.shape[2]
    if k.shape != v.shape or k.shape != (batch, heads_kv, seq_kv, head_dim) or heads_kv < 1 or heads_q % heads_kv:
        raise RuntimeError(
            f"triton flash_attention: k and v must have shape (batch, heads_kv, seq_kv, head_dim) with heads_kv "
            f"dividing heads_q of q {list(q.shape)}, got {list(k.shape)} and {list(v.shape)}"
        )
    if head_dim not in HEAD_DIMS:
        raise RuntimeError(f"triton flash_attention: head_dim must be one of {HEAD_DIMS}, got {head_dim}")
    if q.stride(-1) != 1 or k.stride(-1) != 1 or v.stride(-1) != 1:
        raise RuntimeError("triton flash_attention: the last dimension of q, k and v must be contiguous (stride 1)")
    if window is not None and (window < 1 or not causal):
        raise RuntimeError(
            f"triton flash_attention: window must be positive and needs causal=True, got {window} with causal={causal}"
        )


def compute_capability(device: torch.device) -> int:
    """10 * major + minor, by which the configs of attention's twins go; of a CPU, that of what is interpreted."""
    if device.type != "cuda":
        return _INTERPRETED_AS
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor
