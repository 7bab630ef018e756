"""Addition in Triton; the formula is in csrc/vector_add/vector_add.h."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorAddConfig:
    """One way to launch `_vector_add`."""

    block: int  # elements per program
    num_warps: int


# Reasoned, not tuned on any chip yet: eight elements of each vector per thread are one 16-byte load for 2-byte
# elements, two for 4-byte elements.
CONFIG = VectorAddConfig(block=1024, num_warps=4)


def vector_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Triton twin of warpwatch.kernels.vector_add, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    check_devices("triton vector_add", a=a, b=b)
    if a.shape != b.shape or a.dtype != b.dtype:
        raise RuntimeError(
            f"triton vector_add: a and b differ: {list(a.shape)} in {a.dtype} against {list(b.shape)} in {b.dtype}"
        )
    if not (a.is_contiguous() and b.is_contiguous()):
        raise RuntimeError("triton vector_add: a and b must be contiguous")
    out = a.new_empty(a.shape)
    count = out.numel()
    if count == 0:
        return out
    with torch.cuda.device_of(a):  # Triton launches on the current device
        _vector_add[(triton.cdiv(count, CONFIG.block),)](
            a, b, out, count, BLOCK=CONFIG.block, num_warps=CONFIG.num_warps
        )
    return out


@triton.jit
def _vector_add(a_ptr, b_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    """out = a + b in fp32; one program per BLOCK elements."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = i < n_elements
    a = tl.load(a_ptr + i, mask=live).to(tl.float32)
    b = tl.load(b_ptr + i, mask=live).to(tl.float32)
    tl.store(out_ptr + i, a + b, mask=live)
