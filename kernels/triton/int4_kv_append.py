"""Append of keys and values to a 4-bit cache in Triton; layout and formula are in csrc/int4_kv/int4_kv.h."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ..operators._devices import check_devices

_GROUP = tl.constexpr(32)  # tokens per group of keys, channels per group of values


def int4_kv_append(
    k: torch.Tensor,
    v: torch.Tensor,
    k_codes: torch.Tensor,
    v_codes: torch.Tensor,
    k_scales: torch.Tensor,
    v_scales: torch.Tensor,
    k_window: torch.Tensor,
    v_window: torch.Tensor,
    lengths: torch.Tensor,
) -> None:
    """Triton twin of warpwatch.kernels.int4_kv_append, for CUDA tensors (CPU tensors under TRITON_INTERPRET=1)."""
    operator = "triton int4_kv_append"
    cache = (k_codes, v_codes, k_scales, v_scales, k_window, v_window)
    check_devices(
        operator,
        k=k,
        v=v,
        k_codes=k_codes,
        v_codes=v_codes,
        k_scales=k_scales,
        v_scales=v_scales,
        k_window=k_window,
        v_window=v_window,
        lengths=lengths,
    )
    batch, heads, seq, head_dim = k.shape
    capacity = k_codes.shape[2]
    group = _GROUP.value
    codes = (batch, heads, capacity, head_dim // 2)
    window = (batch, heads, group, head_dim)
    wanted = (
        codes,
        codes,
        (batch, heads, capacity // group, 2, head_dim),
        (batch, heads, capacity, head_dim // group, 2),
        window,
        window,
    )
    if head_dim % group or capacity % group or v.shape != k.shape or lengths.shape != (batch,):
        raise RuntimeError(
            f"{operator}: head_dim and capacity must be multiples of {group}, k and v of one shape, lengths of "
            f"{batch} sequences, got {list(k.shape)}, {list(v.shape)}, {list(k_codes.shape)} and {list(lengths.shape)}"
        )
    if any(part.shape != shape or not part.is_contiguous() for part, shape in zip(cache, wanted, strict=True)):
        shapes = [list(part.shape) for part in cache]
        raise RuntimeError(f"{operator}: the cache must be contiguous and of shapes {list(wanted)}, got {shapes}")
    if k.stride(-1) != 1 or v.stride(-1) != 1:
        raise RuntimeError(f"{operator}: the last dimension of k and v must be contiguous (stride 1)")
    if k.numel() == 0:
        return
    groups = triton.cdiv(seq, group) + 1  # most groups that seq positions touch
    with torch.cuda.device_of(k):  # Triton launches on the current device
        _int4_kv_append[(groups * heads * batch,)](
            k,
            v,
            *cache,
            lengths,
            *k.stride()[:3],
            *v.stride()[:3],
            heads,
            seq,
            capacity,
            head_dim,
            groups,
            BLOCK_DIM=triton.next_power_of_2(head_dim),
            num_warps=4,
            enable_fp_fusion=False,  # each operation is rounded separately, as in CUDA C++
        )


@triton.jit
def _grid(x):
    """(zero, scale) in fp16 of the numbers along the last dimension; a NaN among them makes zero NaN."""
    any_nan = tl.max((x != x).to(tl.int32), axis=1)
    least = tl.min(tl.where(x == x, x, float("inf")), axis=1)
    most = tl.max(tl.where(x == x, x, float("-inf")), axis=1)
    least = tl.minimum(tl.maximum(least, -65504.0), 65504.0)  # float16's range
    most = tl.minimum(tl.maximum(most, -65504.0), 65504.0)
    zero = tl.where(any_nan > 0, float("nan"), least).to(tl.float16)
    scale = tl.div_rn(most - least, 15.0).to(tl.float16)
    # A scale that was rounded up may take the largest code beyond float16: then use the next smaller scale.
    beyond = 15.0 * scale.to(tl.float32) + least > 65504.0
    smaller = (scale.to(tl.int16, bitcast=True) - 1).to(tl.int16).to(tl.float16, bitcast=True)
    return zero, tl.where(beyond, smaller, scale)


@triton.jit
def _codes(x, zero, scale):
    """The integer in 0 .. 15 nearest to (x - zero) / scale; 0 if scale is 0 or x is NaN; one zero and scale per row."""
    step = scale.to(tl.float32)
    inverse = tl.where(step > 0.0, tl.div_rn(1.0, step), 0.0)
    steps = (x - zero.to(tl.float32)[:, None]) * inverse[:, None]
    steps = tl.where(steps == steps, tl.minimum(tl.maximum(steps, 0.0), 15.0), 0.0)
    # Adding and subtracting 1.5 * 2^23 rounds to the nearest integer, ties to even.
    return ((steps + 12582912.0) - 12582912.0).to(tl.int32)


@triton.jit
def _append_group(
    rows_ptr,
    window_ptr,
    codes_ptr,
    scales_ptr,
    row_stride,
    first_new,
    begin,
    end,
    first,
    n_dim,
    KEYS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """Quantize the 32 tokens from `first` on if the group is complete; tokens before `begin` come from the window."""
    row = tl.arange(0, _GROUP)
    dim = tl.arange(0, BLOCK_DIM)[None, :]
    if first + _GROUP <= end:
        position = (first + row)[:, None].to(tl.int64)
        before = position < begin
        live = dim < n_dim
        old = tl.load(window_ptr + row[:, None] * n_dim + dim, mask=before & live, other=0.0)
        new = tl.load(rows_ptr + (position - first_new) * row_stride + dim, mask=(position >= begin) & live, other=0.0)
        x = tl.where(before, old, new).to(tl.float32)
        if KEYS:  # one grid per channel: its numbers are a column
            by_channel = tl.trans(x)
            zero, scale = _grid(by_channel)
            codes = tl.trans(_codes(by_channel, zero, scale))
            column = tl.arange(0, BLOCK_DIM)
            at = scales_ptr + (first // _GROUP).to(tl.int64) * 2 * n_dim + column
            tl.store(at, scale, mask=column < n_dim)
            tl.store(at + n_dim, zero, mask=column < n_dim)
        else:  # one grid per token and 32 channels
            by_group = tl.reshape(x, (BLOCK_DIM, _GROUP))  # (token and group of channels, channel)
            zero, scale = _grid(by_group)
            codes = tl.reshape(_codes(by_group, zero, scale), (_GROUP, BLOCK_DIM))
            token_group = tl.arange(0, BLOCK_DIM)
            groups: tl.constexpr = BLOCK_DIM // _GROUP
            group = token_group % groups
            at = first.to(tl.int64) * (n_dim // _GROUP) + token_group // groups * (n_dim // _GROUP) + group
            tl.store(scales_ptr + 2 * at, scale, mask=group < n_dim // _GROUP)
            tl.store(scales_ptr + 2 * at + 1, zero, mask=group < n_dim // _GROUP)
        low, high = tl.split(tl.reshape(codes, (_GROUP, BLOCK_DIM // 2, 2)))
        byte = tl.arange(0, BLOCK_DIM // 2)[None, :]
        tl.store(codes_ptr + position * (n_dim // 2) + byte, (low | high << 4).to(tl.uint8), mask=byte < n_dim // 2)


@triton.jit
def _keep_open(rows_ptr, window_ptr, row_stride, first_new, begin, end, n_dim, BLOCK_DIM: tl.constexpr):
    """Store the new tokens of an incomplete last group to the window: position j in row j % 32."""
    row = tl.arange(0, _GROUP)[:, None]
    dim = tl.arange(0, BLOCK_DIM)[None, :]
    position = (end // _GROUP * _GROUP + row).to(tl.int64)
    live = (position >= begin) & (position < end) & (dim < n_dim)
    x = tl.load(rows_ptr + (position - first_new) * row_stride + dim, mask=live)
    tl.store(window_ptr + row * n_dim + dim, x, mask=live)


@triton.jit
def _int4_kv_append(
    k_ptr,
    v_ptr,
    k_codes_ptr,
    v_codes_ptr,
    k_scales_ptr,
    v_scales_ptr,
    k_window_ptr,
    v_window_ptr,
    lengths_ptr,
    k_batch_stride,
    k_head_stride,
    k_row_stride,
    v_batch_stride,
    v_head_stride,
    v_row_stride,
    n_heads,
    n_seq,
    n_capacity,
    n_dim,
    n_groups,
    BLOCK_DIM: tl.constexpr,
):
    """Store k and v at positions lengths[b] - n_seq .. lengths[b] - 1: complete groups as codes, others in the window.

    One program per (group, head, batch); groups count from the first that the new rows reach. Only the first group can
    contain earlier rows, which it reads from the window. Its program also stores the last, incomplete group there,
    after that read.
    """
    program = tl.program_id(0)
    which = program % n_groups
    head = (program // n_groups % n_heads).to(tl.int64)
    batch = (program // n_groups // n_heads).to(tl.int64)
    length = tl.load(lengths_ptr + batch)
    first_new = length - n_seq
    begin = tl.maximum(first_new, 0)
    end = tl.maximum(tl.minimum(length, n_capacity), 0)
    first = (begin // _GROUP + which) * _GROUP

    index = batch * n_heads + head
    k_ptr += batch * k_batch_stride + head * k_head_stride
    v_ptr += batch * v_batch_stride + head * v_head_stride
    k_window_ptr += index * _GROUP * n_dim
    v_window_ptr += index * _GROUP * n_dim
    k_codes_ptr += index * n_capacity * (n_dim // 2)
    v_codes_ptr += index * n_capacity * (n_dim // 2)
    k_scales_ptr += index * n_capacity * (n_dim // _GROUP) * 2
    v_scales_ptr += index * n_capacity * (n_dim // _GROUP) * 2
    _append_group(
        k_ptr,
        k_window_ptr,
        k_codes_ptr,
        k_scales_ptr,
        k_row_stride,
        first_new,
        begin,
        end,
        first,
        n_dim,
        True,
        BLOCK_DIM,
    )
    _append_group(
        v_ptr,
        v_window_ptr,
        v_codes_ptr,
        v_scales_ptr,
        v_row_stride,
        first_new,
        begin,
        end,
        first,
        n_dim,
        False,
        BLOCK_DIM,
    )
    if which == 0:
        tl.debug_barrier()  # other threads of this program may still read what is overwritten here
        _keep_open(k_ptr, k_window_ptr, k_row_stride, first_new, begin, end, n_dim, BLOCK_DIM)
        _keep_open(v_ptr, v_window_ptr, v_row_stride, first_new, begin, end, n_dim, BLOCK_DIM)
