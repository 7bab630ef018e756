"""How many samples of a measurement are recorded. No torch here."""

from collections.abc import Sequence

RECORDED_SAMPLES = 50  # at most; a committed run stays under 1 MB


def thinned(values: Sequence[float], most: int = RECORDED_SAMPLES) -> tuple[float, ...]:
    """Every n-th value, at most `most` of them, spread over the whole measurement."""
    stride = -(-len(values) // max(most, 1))
    return tuple(values[:: max(stride, 1)])
