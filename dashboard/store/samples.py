"""Single samples of a measurement as compressed bytes: the history keeps them, no query reads into them."""

import sys
import zlib
from array import array
from collections.abc import Sequence


def encode(values: Sequence[float]) -> bytes:
    """Little-endian doubles, deflated. About 5 bytes a sample for asv's rounded numbers."""
    return zlib.compress(_little_endian(array("d", values)).tobytes(), level=1)


def decode(data: bytes) -> tuple[float, ...]:
    """The samples in the order taken."""
    values = array("d")
    values.frombytes(zlib.decompress(data))
    return tuple(_little_endian(values))


def _little_endian(values: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        values.byteswap()
    return values
