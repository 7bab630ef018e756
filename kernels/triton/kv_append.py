"""Append to a KV cache in Triton; the formula is in csrc/kv_append/kv_append.h."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class KvAppendConfig:
    """One way to launch `_kv_append`."""

    block_tokens: int  # per program
    num_warps: int


def kv_append_config(tokens: int, head_dim: int) -> KvAppendConfig:
    """Config of tracked runs: 4096 elements of keys and of values per program. Reasoned, not tuned on any chip yet."""
    fitting = max(1, 4096 // triton.next_power_of_2(head_dim))
    return KvAppendConfig(block_tokens=min(fitting, triton.next_power_of_2(tokens)), num_warps=4)


def kv_append(
    k_cache: torch.Tensor, v_cache: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor
) -> None:
    """Triton twin of warpwatch.kernels.kv_append, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    check_devices("triton kv_append", k=k, v=v, k_cache=k_cache, v_cache=v_cache, positions=positions)
    batch, heads, tokens, head_dim = k.shape
    capacity = k_cache.shape[2]
    wanted = (batch, heads, capacity, head_dim)
    if v.shape != k.shape or k_cache.shape != wanted or v_cache.shape != wanted or positions.shape != (batch,):
        shapes = [list(tensor.shape) for tensor in (k_cache, v_cache, k, v, positions)]
        raise RuntimeError(f"triton kv_append: the shapes do not belong together: {shapes}")
    if head_dim > 1 and any(tensor.stride(-1) != 1 for tensor in (k_cache, v_cache, k, v)):
        raise RuntimeError("triton kv_append: the last dimension of k, v and the caches must be contiguous (stride 1)")
    if k.numel() == 0:
        return
    config = kv_append_config(tokens, head_dim)
    token_blocks = triton.cdiv(tokens, config.block_tokens)
    with torch.cuda.device_of(k):  # Triton launches on the current device
        _kv_append[(token_blocks * heads * batch,)](
            k_cache,
            v_cache,
            k,
            v,
            positions,
            *k_cache.stride()[:3],
            *v_cache.stride()[:3],
            *k.stride()[:3],
            *v.stride()[:3],
            heads,
            tokens,
            capacity,
            head_dim,
            token_blocks,
            BLOCK_TOKENS=config.block_tokens,
            BLOCK_DIM=triton.next_power_of_2(head_dim),
            num_warps=config.num_warps,
        )


@triton.jit
def _kv_append(
    k_cache_ptr,
    v_cache_ptr,
    k_ptr,
    v_ptr,
    positions_ptr,
    k_cache_batch_stride,
    k_cache_head_stride,
    k_cache_token_stride,
    v_cache_batch_stride,
    v_cache_head_stride,
    v_cache_token_stride,
    k_batch_stride,
    k_head_stride,
    k_token_stride,
    v_batch_stride,
    v_head_stride,
    v_token_stride,
    n_heads,
    n_tokens,
    n_capacity,
    n_dim,
    n_token_blocks,
    BLOCK_TOKENS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """cache[b, h, positions[b] + t] = new[b, h, t] for keys and values; one program per (token block, head, batch)."""
    block = tl.program_id(0)
    head = (block // n_token_blocks % n_heads).to(tl.int64)
    batch = (block // n_token_blocks // n_heads).to(tl.int64)
    token = ((block % n_token_blocks) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)).to(tl.int64)[:, None]
    dim = tl.arange(0, BLOCK_DIM)[None, :]
    place = tl.load(positions_ptr + batch) + token
    live = (token < n_tokens) & (place >= 0) & (place < n_capacity) & (dim < n_dim)
    k = tl.load(k_ptr + batch * k_batch_stride + head * k_head_stride + token * k_token_stride + dim, mask=live)
    v = tl.load(v_ptr + batch * v_batch_stride + head * v_head_stride + token * v_token_stride + dim, mask=live)
    k_rows = k_cache_ptr + batch * k_cache_batch_stride + head * k_cache_head_stride
    v_rows = v_cache_ptr + batch * v_cache_batch_stride + head * v_cache_head_stride
    tl.store(k_rows + place * k_cache_token_stride + dim, k, mask=live)
    tl.store(v_rows + place * v_cache_token_stride + dim, v, mask=live)
