"""Shared by the Triton rms_norm and layer_norm: checks, config and launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import triton

from ..operators._devices import check_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNormConfig:
    """One way to launch `_rms_norm` or `_layer_norm`."""

    block_rows: int  # rows per program
    num_warps: int


# Reasoned, not tuned on any chip yet: 16 to 32 elements of a row per thread, i.e. two to four 16-byte loads in flight
# with 2-byte elements; narrow rows share a program.
_BY_WIDTH = {
    128: RowNormConfig(block_rows=16, num_warps=4),
    256: RowNormConfig(block_rows=8, num_warps=4),
    512: RowNormConfig(block_rows=4, num_warps=4),
    1024: RowNormConfig(block_rows=2, num_warps=4),
    2048: RowNormConfig(block_rows=1, num_warps=4),
    4096: RowNormConfig(block_rows=1, num_warps=4),
    8192: RowNormConfig(block_rows=1, num_warps=8),
    16384: RowNormConfig(block_rows=1, num_warps=16),
}
_NARROWER = RowNormConfig(block_rows=16, num_warps=4)
_WIDER = RowNormConfig(block_rows=1, num_warps=32)
MOST_COLUMNS = 65536  # limit of a program's registers: 64 fp32 per thread


def row_norm_config(block_cols: int) -> RowNormConfig:
    """Config of tracked runs for rows of this many columns, rounded up to a power of two."""
    if block_cols < min(_BY_WIDTH):
        return _NARROWER
    return _BY_WIDTH.get(block_cols, _WIDER)


def launch(
    function: Any,
    operator: str,
    x: torch.Tensor,
    residual: torch.Tensor | None,
    eps: float,
    vectors: Mapping[str, torch.Tensor | None],
    **options: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the output and x + residual; without a residual, the output twice.

    `vectors` are per-column tensors by argument name; for one that is None, the kernel gets the first and does not read
    it.
    """
    x_rows, residual_rows = _as_rows(operator, x, residual, **vectors)
    out = x.new_empty(x.shape)
    total = out if residual is None else x.new_empty(x.shape)  # without a residual nothing is written to it
    if out.numel() == 0:
        return out, total
    rows, cols = x_rows.shape
    config = row_norm_config(triton.next_power_of_2(cols))
    first = next(iter(vectors.values()))
    with torch.cuda.device_of(x):  # Triton launches on the current device
        function[(triton.cdiv(rows, config.block_rows),)](
            x_rows,
            x_rows if residual_rows is None else residual_rows,
            *(first if vector is None else vector for vector in vectors.values()),
            out,
            total,
            x_rows.stride(0),
            0 if residual_rows is None else residual_rows.stride(0),
            rows,
            cols,
            eps,
            RESIDUAL=residual is not None,
            BLOCK_ROWS=config.block_rows,
            BLOCK_COLS=triton.next_power_of_2(cols),
            num_warps=config.num_warps,
            **options,
        )
    return out, total


def _as_rows(
    operator: str, x: torch.Tensor, residual: torch.Tensor | None, **vectors: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """x and residual as (rows, cols). Raises RuntimeError for arguments that the twin does not support."""
    given = {name: vector for name, vector in vectors.items() if vector is not None}
    check_devices(operator, x=x, **({} if residual is None else {"residual": residual}), **given)
    cols = x.shape[-1]
    if cols > MOST_COLUMNS:
        raise RuntimeError(
            f"{operator}: the last dimension may not pass {MOST_COLUMNS}, got x of shape {list(x.shape)}"
        )
    for name, vector in given.items():
        if vector.shape != (cols,) or vector.dtype != x.dtype or not vector.is_contiguous():
            raise RuntimeError(
                f"{operator}: {name} must be contiguous, of shape [{cols}] and {x.dtype}, "
                f"got {list(vector.shape)} in {vector.dtype}"
            )
    if residual is not None and (residual.shape != x.shape or residual.dtype != x.dtype):
        raise RuntimeError(
            f"{operator}: x and residual differ: {list(x.shape)} in {x.dtype} "
            f"against {list(residual.shape)} in {residual.dtype}"
        )
    for name, tensor in (("x", x), ("residual", residual)):
        if tensor is not None and cols > 1 and tensor.stride(-1) != 1:
            raise RuntimeError(f"{operator}: the last dimension of {name} must be contiguous (stride 1)")
    rows = x.numel() // cols if cols else 0
    return x.reshape(rows, cols), None if residual is None else residual.reshape(rows, cols)
