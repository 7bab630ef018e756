"""What the Triton rms_norm and layer_norm check and lay out alike, before they launch."""

from __future__ import annotations

import torch

from ..operators.devices import check_devices
from .row_norm_configs import MOST_COLUMNS


def as_rows(
    operator: str, x: torch.Tensor, residual: torch.Tensor | None, **vectors: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """x and residual as (rows, cols). Raises RuntimeError for what the twin does not take."""
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
