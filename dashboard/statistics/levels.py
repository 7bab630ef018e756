"""Level of each segment between changepoints: the median over its commits."""

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
