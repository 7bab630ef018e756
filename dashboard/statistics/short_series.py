"""Where a short history of measured values shifts, on a machine whose noise is known from its other series.

Binary segmentation: the split with the least sum of absolute deviations from the medians of both sides is tested, with
the difference at the split left out of the noise, and both sides are then looked at in the same way.
"""

import math
from collections.abc import Sequence
from statistics import median

from ..model.quantities import growth
from .changepoint import Changepoint
from .comparison import RunValue, sample_error
from .distributions import student_quantile, student_tail
from .machine_noise import history_noise

_P = 1e-4
_OFF_MEDIAN = 1.2533  # standard error of a median in those of a mean, for normal noise


def short_changepoints(
    commits: Sequence[Sequence[RunValue]], machine: float, *, smallest_change: float
) -> tuple[Changepoint, ...]:
    """The changepoints of a history of positive values given as runs by commit.

    `machine` is what the machine's series of similar latency scatter between runs, relative (`machine_scale`).
    One commit alone makes a level only at either end of the history; in between it takes two.
    """
    levels = [median(run.value for run in runs) for runs in commits]
    edges = _edges(commits, levels, machine, smallest_change, 0, len(levels))
    found = []
    for start, middle, end in zip([0, *edges], edges, [*edges[1:], len(levels)], strict=False):
        change = _tested(commits, levels, machine, start, middle, end)
        if change is not None and abs(change.magnitude) >= smallest_change:
            found.append(change)
    return tuple(found)


def _edges(
    commits: Sequence[Sequence[RunValue]],
    levels: Sequence[float],
    machine: float,
    smallest: float,
    start: int,
    end: int,
) -> list[int]:
    """Where the history splits between two places, in order."""
    places = [
        place
        for place in range(start + 1, end)
        if (place - start > 1 or start == 0) and (end - place > 1 or end == len(levels))
    ]
    if not places:
        return []
    split = min(places, key=lambda place: _deviation(levels[start:place]) + _deviation(levels[place:end]))
    change = _tested(commits, levels, machine, start, split, end)
    if change is None or abs(change.magnitude) < smallest:
        return []
    left, right = ((start, split), (split, end))
    return [
        *_edges(commits, levels, machine, smallest, *left),
        split,
        *_edges(commits, levels, machine, smallest, *right),
    ]


def _deviation(levels: Sequence[float]) -> float:
    logs = [math.log(level) for level in levels]
    middle = median(logs)
    return sum(abs(x - middle) for x in logs)


def _tested(
    commits: Sequence[Sequence[RunValue]],
    levels: Sequence[float],
    machine: float,
    start: int,
    split: int,
    end: int,
) -> Changepoint | None:
    """The change at a split, if it is certain."""
    noise = history_noise(levels, machine, (split - 1, split))
    if noise is None or noise.freedom is None:  # a machine that tells gives both
        return None
    sizes = [split - start, end - split]
    before, after = median(levels[start:split]), median(levels[split:end])
    inside = max(sample_error(run) for runs in commits[start:end] for run in runs)
    inefficiency = _OFF_MEDIAN if max(sizes) > 2 else 1.0
    error = max(noise.scale, inside) * inefficiency * math.sqrt(sum(1 / size for size in sizes))
    shift = math.log(after / before)
    p = student_tail(abs(shift) / error, noise.freedom)
    if p >= _P:
        return None
    reach = student_quantile(noise.freedom) * error
    return Changepoint(
        index=split,
        first=split,
        last=split,
        before=before,
        after=after,
        magnitude=growth(shift),
        low=growth(shift - reach),
        high=growth(shift + reach),
        p_value=p,
        chance=min(p * (len(levels) - 1), 1.0),
        posterior=((split, 1.0),),
    )
