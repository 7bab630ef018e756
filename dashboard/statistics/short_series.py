"""Changepoints of a short history, on a machine whose noise is known from its other series.

Binary segmentation: the split with the least sum of absolute deviations from the medians of both sides is tested, with
the difference at the split left out of the noise; then both sides are split in the same way.
"""

import math
from collections.abc import Sequence
from statistics import median

from ..model.quantities import relative_change
from .changepoint import Changepoint
from .comparison import RunValue, sample_error
from .distributions import critical_value, t_p_value
from .machine_noise import history_noise

_P = 1e-4
_OFF_MEDIAN = 1.2533  # standard error of a median in those of a mean, for normal noise


def short_changepoints(
    commits: Sequence[Sequence[RunValue]], machine: float, *, smallest_change: float
) -> tuple[Changepoint, ...]:
    """Changepoints of a history of positive values, given as runs by commit.

    `machine`: relative scatter between runs of the machine's series of similar latency (`Peers.scale`). A level needs
    two commits, at either end of the history one.
    """
    levels = [median(run.value for run in runs) for runs in commits]
    edges = _edges(commits, levels, machine, smallest_change, 0, len(levels))
    changes = []
    for start, middle, end in zip([0, *edges], edges, [*edges[1:], len(levels)], strict=False):
        change = _tested(commits, levels, machine, start, middle, end)
        if change is not None and abs(change.magnitude) >= smallest_change:
            changes.append(change)
    return tuple(changes)


def _edges(
    commits: Sequence[Sequence[RunValue]],
    levels: Sequence[float],
    machine: float,
    smallest: float,
    start: int,
    end: int,
) -> list[int]:
    """Positions between `start` and `end` at which the history splits, in order."""
    candidates = [
        index
        for index in range(start + 1, end)
        if (index - start > 1 or start == 0) and (end - index > 1 or end == len(levels))
    ]
    if not candidates:
        return []
    split = min(candidates, key=lambda index: _deviation(levels[start:index]) + _deviation(levels[index:end]))
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
    """The change at a split; None if it is not significant."""
    noise = history_noise(levels, machine, (split - 1, split))
    if noise is None or noise.df is None:  # with a machine's scale neither is None
        return None
    sizes = [split - start, end - split]
    before, after = median(levels[start:split]), median(levels[split:end])
    inside = max(sample_error(run) for runs in commits[start:end] for run in runs)
    inefficiency = _OFF_MEDIAN if max(sizes) > 2 else 1.0
    error = max(noise.scale, inside) * inefficiency * math.sqrt(sum(1 / size for size in sizes))
    shift = math.log(after / before)
    p = t_p_value(abs(shift) / error, noise.df)
    if p >= _P:
        return None
    half = critical_value(0.05, noise.df) * error
    return Changepoint(
        index=split,
        first=split,
        last=split,
        before=before,
        after=after,
        magnitude=relative_change(shift),
        ci_low=relative_change(shift - half),
        ci_high=relative_change(shift + half),
        p_value=p,
        p_adjusted=min(p * (len(levels) - 1), 1.0),
        posterior=((split, 1.0),),
    )
