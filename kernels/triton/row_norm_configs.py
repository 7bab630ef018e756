"""How the Triton rms_norm and layer_norm are cut: a frozen choice per width, so that a number always means one code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNormConfig:
    """One way to launch `_rms_norm` or `_layer_norm`."""

    block_rows: int  # rows of one program
    num_warps: int


# Reasoned, not yet tuned on any chip: 16 to 32 elements of a row a thread, that is two to four loads of 16 bytes in
# flight at two bytes an element; narrow rows share a program.
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
MOST_COLUMNS = 65536  # of one program's registers: 64 fp32 a thread


def row_norm_config(block_cols: int) -> RowNormConfig:
    """The config of tracked runs for rows of so many columns, rounded up to a power of two."""
    if block_cols < min(_BY_WIDTH):
        return _NARROWER
    return _BY_WIDTH.get(block_cols, _WIDER)
