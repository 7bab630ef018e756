"""Rotary position embedding in Triton; the formula is in csrc/rope/rope.h."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeConfig:
    """One way to launch `_rope`."""

    block_seq: int  # positions per program
    heads: int  # heads that share one load of cos and sin
    num_warps: int


# Reasoned, not tuned on any chip yet: about 4096 elements of x per head and program, i.e. two 16-byte loads in flight
# for each of 128 threads with 2-byte elements, times four heads.
_BY_HEAD_DIM = {
    64: RopeConfig(block_seq=64, heads=4, num_warps=4),
    128: RopeConfig(block_seq=32, heads=4, num_warps=4),
    256: RopeConfig(block_seq=16, heads=4, num_warps=4),
}
_OTHERWISE = RopeConfig(block_seq=16, heads=2, num_warps=4)


def rope_config(head_dim: int) -> RopeConfig:
    """Config of tracked runs for this head_dim."""
    return _BY_HEAD_DIM.get(head_dim, _OTHERWISE)


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, interleaved: bool = False) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.rope, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    check_devices("triton rope", x=x, cos=cos, sin=sin)
    *_, seq, head_dim = x.shape
    half = head_dim // 2
    if head_dim % 2 or cos.shape != (seq, half) or sin.shape != (seq, half):
        raise RuntimeError(
            f"triton rope: cos and sin must have shape (seq, head_dim / 2) of x {list(x.shape)}, "
            f"got {list(cos.shape)} and {list(sin.shape)}"
        )
    if half and (x.stride(-1) != 1 or cos.stride(-1) != 1 or sin.stride(-1) != 1):
        raise RuntimeError("triton rope: the last dimension of x, cos and sin must be contiguous (stride 1)")
    return _turned(x, cos, sin, (cos.stride(0), sin.stride(0)), interleaved)


def rope_computed(
    x: torch.Tensor, positions: torch.Tensor, *, base: float = 10000.0, interleaved: bool = False
) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.rope_computed, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    check_devices("triton rope_computed", x=x, positions=positions)
    batch, _, _, head_dim = x.shape
    if head_dim % 2 or positions.shape != (batch,) or positions.dtype != torch.int64:
        raise RuntimeError(
            f"triton rope_computed: positions must be int64 of shape (batch) of x {list(x.shape)}, head_dim even, "
            f"got {list(positions.shape)} in {positions.dtype}"
        )
    if head_dim and (x.stride(-1) != 1 or not positions.is_contiguous()):
        raise RuntimeError("triton rope_computed: the last dimension of x and positions must be contiguous (stride 1)")
    return _turned(x, positions, turns_of(head_dim // 2, base, x.device), (0, 0), interleaved)


@functools.cache
def turns_of(half: int, base: float, device: torch.device) -> torch.Tensor:
    """(half) int64: the rotation of each pair per position, in 2^-64 turns (csrc/rope/rope.h)."""
    turns = (math.floor(math.ldexp(base ** (-i / half) / (2 * math.pi), 64) + 0.5) for i in range(half))
    return torch.tensor([turn - (turn >> 63 << 64) for turn in turns], dtype=torch.int64, device=device)


def _turned(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, strides: tuple[int, int], interleaved: bool
) -> torch.Tensor:
    """Launch; cos and sin are float32 tables, or positions and turns, both int64."""
    batch, heads, seq, head_dim = x.shape
    half = head_dim // 2
    out = x.new_empty(x.shape)
    if out.numel() == 0:
        return out
    config = rope_config(head_dim)
    seq_blocks = triton.cdiv(seq, config.block_seq)
    head_groups = triton.cdiv(heads, config.heads)
    with torch.cuda.device_of(x):  # Triton launches on the current device
        _rope[(seq_blocks * head_groups * batch,)](
            x,
            cos,
            sin,
            out,
            x.stride(0),
            x.stride(1),
            x.stride(2),
            *strides,
            heads,
            seq,
            half,
            seq_blocks,
            head_groups,
            COMPUTED=cos.dtype == torch.int64,
            INTERLEAVED=interleaved,
            HEADS=config.heads,
            BLOCK_SEQ=config.block_seq,
            BLOCK_HALF=triton.next_power_of_2(half),
            num_warps=config.num_warps,
        )
    return out


@triton.jit
def cos_and_sin(position, turn):
    """cos and sin for positions (rows) and rotations per position (columns), in 2^-64 turns."""
    # int64 wraps, which drops whole turns; the upper half is the signed angle in 2^-31 half turns.
    angle = ((position[:, None] * turn[None, :]) >> 32).to(tl.float32) * (3.141592653589793 / 2147483648.0)
    return tl.cos(angle), tl.sin(angle)


@triton.jit
def _rope(
    x_ptr,
    cos_ptr,
    sin_ptr,
    out_ptr,
    x_batch_stride,
    x_head_stride,
    x_seq_stride,
    cos_seq_stride,
    sin_seq_stride,
    n_heads,
    n_seq,
    n_half,
    n_seq_blocks,
    n_head_groups,
    COMPUTED: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    HEADS: tl.constexpr,
    BLOCK_SEQ: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
):
    """out.a = a cos - b sin, out.b = b cos + a sin for the pairs of BLOCK_SEQ positions in HEADS heads; fp32 inside.

    One program per (sequence block, head group, batch); the sequence varies fastest; out is contiguous. If COMPUTED,
    cos_ptr is the position of each sequence's first row and sin_ptr each pair's rotation per position, in 2^-64 turns.
    """
    block = tl.program_id(0)
    head_block = block // n_seq_blocks
    batch = (head_block // n_head_groups).to(tl.int64)
    seq = (block % n_seq_blocks * BLOCK_SEQ + tl.arange(0, BLOCK_SEQ)).to(tl.int64)
    column = tl.arange(0, BLOCK_HALF)
    live = (seq < n_seq)[:, None] & (column < n_half)[None, :]
    if COMPUTED:
        position = tl.load(cos_ptr + batch) + seq
        turn = tl.load(sin_ptr + column, mask=column < n_half, other=0)
        cos, sin = cos_and_sin(position, turn)
    else:
        cos = tl.load(cos_ptr + seq[:, None] * cos_seq_stride + column[None, :], mask=live, other=0.0)
        sin = tl.load(sin_ptr + seq[:, None] * sin_seq_stride + column[None, :], mask=live, other=0.0)

    for h in tl.static_range(HEADS):
        head = (head_block % n_head_groups * HEADS + h).to(tl.int64)
        # A one-element tensor: Triton 3.9's interpreter turns a mask and-ed with a scalar into an integer.
        there = tl.full((1, 1), head, tl.int64) < n_heads
        rows = x_ptr + batch * x_batch_stride + head * x_head_stride + seq[:, None] * x_seq_stride
        out_rows = out_ptr + ((batch * n_heads + head) * n_seq + seq[:, None]) * (2 * n_half)
        if INTERLEAVED:
            # Loads both elements of a pair and separates them in registers: strided loads would waste half of each
            # sector.
            pair_column = tl.arange(0, 2 * BLOCK_HALF)
            pair_live = (seq < n_seq)[:, None] & (pair_column < 2 * n_half)[None, :] & there
            pairs = tl.load(rows + pair_column[None, :], mask=pair_live, other=0.0).to(tl.float32)
            a, b = tl.split(tl.reshape(pairs, (BLOCK_SEQ, BLOCK_HALF, 2)))
            turned = tl.join(a * cos - b * sin, b * cos + a * sin)
            tl.store(
                out_rows + pair_column[None, :],
                tl.reshape(turned, (BLOCK_SEQ, 2 * BLOCK_HALF)),
                mask=pair_live,
            )
        else:
            a = tl.load(rows + column[None, :], mask=live & there, other=0.0).to(tl.float32)
            b = tl.load(rows + n_half + column[None, :], mask=live & there, other=0.0).to(tl.float32)
            tl.store(out_rows + column[None, :], a * cos - b * sin, mask=live & there)
            tl.store(out_rows + n_half + column[None, :], b * cos + a * sin, mask=live & there)
