"""Which bytes the L2 ceiling's kernel reads: windows of a buffer that stays in the L2. No torch here."""

import math
from dataclasses import dataclass

_L2_SHARE = 3 / 8  # Hopper's two halves may each keep a copy of what the other holds
_WINDOWS_IN_BUFFER = 32
# From 8192 int64 on, PyTorch's reduction gives a row to a whole block of 512 threads; below, to a warp, whose
# neighbours would read nearly the same window through the same L1.
_LEAST_WINDOW = 8192 * 8
_LINE = 128
_CALL_BYTES = 2 << 30  # some hundred microseconds, beside which the launch is nothing


class L2TooSmallError(Exception):
    """Windows that no L1 holds would not fit into this L2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """`count` windows of `length` bytes, each starting `shift` bytes after the one before, all read `repeats` times."""

    buffer: int  # bytes
    length: int
    shift: int
    count: int
    repeats: int

    @property
    def bytes_read(self) -> int:
        """By one call."""
        return self.repeats * self.count * self.length


def windows(l2_bytes: int, sm_count: int) -> Windows:
    """Windows for an L2 of this size, a thread block each.

    Blocks are dealt to the SMs in turn. So the windows are shifted by their length over the number of SMs, and their
    count is a multiple of it: those that one SM is dealt lie side by side and cover the buffer before the first comes
    again, which by then has left the L1. Raises L2TooSmallError.
    """
    buffer = int(l2_bytes * _L2_SHARE) // _LINE * _LINE
    length = max(buffer // _WINDOWS_IN_BUFFER // _LINE * _LINE, _LEAST_WINDOW)
    shift = math.ceil(length / sm_count / _LINE) * _LINE
    count = (buffer - length) // shift // sm_count * sm_count
    if count <= 0:
        raise L2TooSmallError(f"an L2 of {l2_bytes} bytes is too small to read from again and again")
    return Windows(
        buffer=buffer, length=length, shift=shift, count=count, repeats=math.ceil(_CALL_BYTES / (count * length))
    )
