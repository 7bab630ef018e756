"""How many samples of a measurement are recorded. No torch here."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
RECORDED_SAMPLES = 50  # at most; a committed run stays under 1 MB


def thinned(values: Sequence[float], most: int = RECORDED_SAMPLES) -> tuple[float, ...]:
    """Every n-th value, at most `most` of them, spread over the whole measurement."""
    stride = -(-len(values) // max(most, 1))
    return tuple(values[:: max(stride, 1)])


def batches(values: Sequence[T], most: int = RECORDED_SAMPLES) -> list[Sequence[T]]:
    """The values in their order, in at most `most` batches of equal length; what is left over at the end is dropped."""
    length = max(1, -(-len(values) // most))
    return [values[start : start + length] for start in range(0, len(values) - length + 1, length)]
