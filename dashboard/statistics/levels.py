"""Levels of a series between its changepoints, medians over commits; and thinning of a long history for drawing."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.changepoint import SeriesChange
from ..model.series import Commit, Point, Status

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Segment(NamedTuple):
    """A segment's first and last commit, as indices among the commits that have a number."""

    first: int
    last: int
    level: float
    commits: int


def medians_of_groups(groups: Ints, values: Floats) -> Floats:
    """The median of each group's values; groups are 0, 1, 2, ... in any order and none is empty."""
    order = np.lexsort((values, groups))
    counts = np.bincount(groups)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    ordered = values[order]
    low, high = ordered[starts + (counts - 1) // 2], ordered[starts + counts // 2]
    return np.asarray((low + high) / 2, dtype=np.float64)


def segments(values: Floats, gpus: Ints, edges: Ints) -> list[Segment]:
    """Segments between edges, separately for each GPU, by their first commit.

    `values`: medians of the commits, in order; `gpus`: a number for each commit's GPU; `edges`: indices at which a new
    level begins.
    """
    if not len(values):
        return []
    segment = np.searchsorted(edges, np.arange(len(values)), side="right")
    _, first, group = np.unique(np.stack((segment, gpus)), axis=1, return_index=True, return_inverse=True)
    group = group.ravel()
    level = medians_of_groups(group, values)
    last = np.zeros(len(first), dtype=np.int64)
    np.maximum.at(last, group, np.arange(len(values)))
    count = np.bincount(group)
    return [Segment(int(first[n]), int(last[n]), float(level[n]), int(count[n])) for n in np.argsort(first)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLevel:
    """A segment of a history; its level is the median of its commits, each the median of its runs."""

    first: Commit
    last: Commit
    value: float
    commits: int
    gpu: str | None
    is_gpu_adjusted: bool


def levels(
    points: Sequence[Point],
    changes: Sequence[SeriesChange],
    *,
    is_exact: bool,
    ratios: Sequence[float | None] = (),
) -> tuple[SegmentLevel, ...]:
    """Segments of a history, in order of commits, as are the points. The GPU does not matter to exact quantities.

    `ratios`: GPU-adjusted over measured value of each commit with a number, where several GPUs measured. Commits with a
    ratio are one segment on all GPUs.
    """
    numbers = [point for point in points if point.status is Status.OK and point.value is not None]
    runs = [list(group) for _, group in groupby(numbers, key=lambda point: point.commit.hash)]
    commits = [group[0].commit for group in runs]
    known = ratios if len(ratios) == len(runs) else [None] * len(runs)
    gpus = [None if is_exact or ratio is not None else group[-1].gpu for group, ratio in zip(runs, known, strict=True)]
    number = {gpu: index for index, gpu in enumerate(dict.fromkeys(gpus))}
    medians = np.array([median(point.value for point in group if point.value is not None) for group in runs])
    found = segments(
        medians * [1.0 if ratio is None else ratio for ratio in known],
        np.array([number[gpu] for gpu in gpus], dtype=np.int64),
        np.array(sorted(change.index for change in changes), dtype=np.int64),
    )
    return tuple(
        SegmentLevel(
            first=commits[segment.first],
            last=commits[segment.last],
            value=segment.level,
            commits=segment.commits,
            gpu=gpus[segment.first],
            is_gpu_adjusted=known[segment.first] is not None,
        )
        for segment in found
    )


_OF_A_BUCKET = 4  # the first, the last, the smallest and the largest number
_INSIDE = 0.75  # share of the points for the reader's window


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
