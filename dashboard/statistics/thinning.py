"""Thinning of a long history for drawing, which keeps extremes, ends and marked points."""

import numpy as np
from numpy.typing import NDArray

from .levels import medians_of_groups

_OF_A_BUCKET = 4  # the first, the last, the smallest and the largest number
_INSIDE = 0.75  # share of the points for the reader's window

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def thin(
    place: Ints,
    value: Floats,
    status: Ints,
    marked: NDArray[np.bool_],
    *,
    most: int,
    window: tuple[int, int] | None = None,
) -> Ints:
    """Indices of the points to draw, in order. `place`: each point's commit position, not decreasing.

    Each of `most / 4` stretches of equal width keeps its first, last, smallest and largest number, as in Jugel, Jerzak,
    Hackenbroich and Markl, "M4: A Visualization-Oriented Time Series Data Aggregation" (VLDB 2014), and of points
    without a number (NaN) the first and last of each status. Marked points are kept. A window of positions gets three
    quarters of the points. A history of at most `most` points is kept whole.
    """
    everything = np.arange(len(place), dtype=np.int64)
    if len(place) <= most:
        return everything
    if window is None:
        kept = [_thin_part(everything, place, value, status, most)]
    else:
        inside = (window[0] <= place) & (place <= window[1])
        share = round(most * _INSIDE)
        parts = ((inside, share), (place < window[0], (most - share) // 2), (place > window[1], (most - share) // 2))
        kept = [_thin_part(everything[part], place, value, status, size) for part, size in parts]
    return np.unique(np.concatenate([*kept, everything[marked]]))


def _thin_part(part: Ints, place: Ints, value: Floats, status: Ints, most: int) -> Ints:
    if len(part) <= most:
        return part
    buckets = max(most // _OF_A_BUCKET, 1)
    start, width = place[part[0]], place[part[-1]] - place[part[0]] + 1
    bucket = (place[part] - start) * buckets // width
    has_number = ~np.isnan(value[part])
    numbers, number_bucket = part[has_number], bucket[has_number]
    by_size = np.lexsort((value[numbers], number_bucket))
    kept = [*_ends(numbers, number_bucket), *_ends(numbers[by_size], number_bucket[by_size])]
    for code in np.unique(status[part[~has_number]]):
        chosen = ~has_number & (status[part] == code)
        kept += _ends(part[chosen], bucket[chosen])
    return np.concatenate(kept)


def _ends(points: Ints, bucket: Ints) -> tuple[Ints, Ints]:
    """First and last point of each bucket; `bucket` must not decrease."""
    if not len(points):
        return points, points
    begins = np.flatnonzero(np.diff(bucket, prepend=bucket[0] - 1))
    ends = np.append(begins[1:], len(points)) - 1
    return points[begins], points[ends]


def thin_band(
    place: Ints, low: Floats, high: Floats, *, most: int, window: tuple[int, int] | None = None
) -> tuple[Ints, Floats, Floats]:
    """Indices, lower and upper edge of a band of about `most / 4` points: the medians of both edges in each stretch.

    Stretches hold equally many points; those of the window get three quarters. With few points each is a stretch.
    """
    everything = np.arange(len(place), dtype=np.int64)
    room = max(most // _OF_A_BUCKET, 1)
    if len(place) <= most:
        return everything, low, high
    if window is None:
        groups = np.array_split(everything, room)
    else:
        inside = (window[0] <= place) & (place <= window[1])
        share = max(round(room * _INSIDE), 1)
        rest = max((room - share) // 2, 1)
        sizes = (
            (place < window[0], rest),
            (inside, share if inside.sum() > round(most * _INSIDE) else inside.sum()),
            (place > window[1], rest),
        )
        groups = [g for part, size in sizes if part.any() for g in np.array_split(everything[part], max(int(size), 1))]
    sizes_of = np.array([len(group) for group in groups if len(group)])
    starts = np.concatenate(([0], np.cumsum(sizes_of)[:-1]))
    group_of = np.repeat(np.arange(len(sizes_of)), sizes_of)
    return starts + sizes_of // 2, medians_of_groups(group_of, low), medians_of_groups(group_of, high)
