"""Attribution of a changepoint to the machine, using control series.

Controls are work that no commit changes: canaries, baselines. Without any, the machine's other series are reported, but
decide nothing, as the commit may have changed them too. A control's shift is the difference of medians of up to ten
commits on each side of the change's 95 % range, on logarithms. The machine's part of the change is predicted for
another kernel, so its interval covers the spread of the controls and not only the error of their mean.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.quantities import relative_change
from ..model.verdict import Control
from .distributions import MEDIAN_ERROR, NORMAL_95
from .noise import median

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


FEWEST = {Control.CANARIES: 1, Control.BASELINES: 3, Control.OTHERS: 12}  # controls to attribute a change

WINDOW = 10  # commits on each side
_BLOCK = 256  # positions
_MANY = 5  # controls, from which on a tenth at each end is left out
_TENTH = 0.1
_MOSTLY = 0.5  # share beyond which a change is the machine's


class Shift(NamedTuple):
    """A difference of logarithms with its 95 % interval."""

    value: float
    ci_low: float
    ci_high: float

    @property
    def half(self) -> float:
        """Half of the interval's width."""
        return (self.ci_high - self.ci_low) / 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shifts:
    """Shifts of controls across ranges: arrays of (range, control); NaN: not known."""

    value: Floats
    error: Floats  # standard error


def control_shifts(levels: Floats, before: Ints, after: Ints) -> Shifts:
    """Shifts of controls across ranges of commits.

    `levels`: logarithms by control and commit, NaN where there is none. A range lies between the commits before
    position `before` and those from position `after` on.
    """
    near = np.arange(WINDOW)
    (old, old_count), (new, new_count) = (
        _medians_near(levels, places, offsets) for places, offsets in ((before, -1 - near), (after, near))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        error = MEDIAN_ERROR * _scales(levels) * np.sqrt(1 / old_count + 1 / new_count)
    return Shifts(value=new - old, error=error)


def _medians_near(levels: Floats, places: Ints, offsets: Ints) -> tuple[Floats, Floats]:
    """Medians of the levels at `offsets` from each position, and their counts, by position and control.

    Ranges are many and positions few, so each distinct position is computed once, in blocks that need no more memory
    than the levels themselves.
    """
    distinct, of_place = np.unique(places, return_inverse=True)
    parts = []
    for block in np.array_split(distinct, len(distinct) // _BLOCK + 1):
        at = block[:, None] + offsets
        exists = (at >= 0) & (at < levels.shape[1])
        parts.append(_medians(np.where(exists, levels[:, np.where(exists, at, 0)], np.nan)))
    medians, counts = (np.concatenate(blocks, axis=1) for blocks in zip(*parts, strict=True))
    return medians.T[of_place], counts.T[of_place]


def machine_shifts(shifts: Floats, errors: Floats) -> list[Shift]:
    """Predicted shift of another kernel, by row; from the shifts of controls and their errors, NaN where not eligible.

    The interval spans the controls, from five on without a tenth at each end, widened by the error of their median.
    """
    count = (~np.isnan(shifts)).sum(axis=1)
    ordered, errors = np.sort(shifts, axis=1), np.sort(errors, axis=1)  # NaN last
    edge = np.where(count >= _MANY, _TENTH, 0.0)
    half = NORMAL_95 * _quantiles(errors, count, 0.5) / np.sqrt(count)
    low, middle, high = (_quantiles(ordered, count, level) for level in (edge, 0.5, 1 - edge))
    return [Shift(*each) for each in zip(middle.tolist(), (low - half).tolist(), (high + half).tolist(), strict=True)]


def _quantiles(ordered: Floats, count: Ints, level: Floats | float) -> Floats:
    """Quantiles of the first `count` values of each row, linearly interpolated."""
    position = level * (count - 1)
    below = position.astype(int)
    row = np.arange(len(ordered))
    lower, upper = ordered[row, below], ordered[row, np.minimum(below + 1, count - 1)]
    return np.asarray(lower + (position - below) * (upper - lower))


def share(change: Shift, machine: Shift) -> Shift:
    """The machine's share of a change: 1 is all of it, below 0 against it. Errors are propagated.

    The change must not be 0.
    """
    value = machine.value / change.value
    below, above = machine.value - machine.ci_low, machine.ci_high - machine.value
    if change.value < 0:
        below, above = above, below
    own, size = abs(value) * change.half, abs(change.value)
    return Shift(
        value=value, ci_low=value - math.hypot(below, own) / size, ci_high=value + math.hypot(above, own) / size
    )


def remainder(change: Shift, machine: Shift) -> Shift:
    """The change without the machine's part."""
    value = change.value - machine.value
    low = value - math.hypot(change.value - change.ci_low, machine.ci_high - machine.value)
    return Shift(
        value=value,
        ci_low=low,
        ci_high=value + math.hypot(change.ci_high - change.value, machine.value - machine.ci_low),
    )


def is_machine_state(machine_share: Shift, rest: Shift, smallest: float) -> bool:
    """Whether the machine explains a change: more than half for sure, and all of it or all but a negligible rest.

    `smallest`: the smallest relative change that counts.
    """
    if machine_share.ci_low <= _MOSTLY:
        return False
    return machine_share.ci_high >= 1 or abs(relative_change(rest.value)) < smallest


def _medians(values: Floats) -> tuple[Floats, Floats]:
    """Medians over the last axis without NaN, and counts."""
    ordered = np.sort(values, axis=-1)  # NaN last
    count = (~np.isnan(values)).sum(axis=-1)
    middle = [
        np.take_along_axis(ordered, place[..., None], -1)[..., 0]
        for place in (np.maximum(count - 1, 0) // 2, count // 2)
    ]
    return (middle[0] + np.where(count > 0, middle[1], np.nan)) / 2, count.astype(float)


def _scales(levels: Floats) -> Floats:
    """Noise of one value of each control, from neighbouring differences; the median of all where one has too few."""
    scales = np.full(len(levels), np.nan)
    for index, row in enumerate(levels):
        values = row[~np.isnan(row)]
        if len(values) > _MANY:
            scales[index] = median(np.abs(values[1:] - values[:-1])) / 0.9539  # of normal noise: 0.6745 sqrt 2
    known = scales[~np.isnan(scales)]
    usual = median(known) if len(known) else _ASSUMED
    return np.maximum(np.where(np.isnan(scales), usual, scales), _FLOOR)


_ASSUMED = 0.02  # noise of a control between runs, if no control has enough values
_FLOOR = 1e-4  # relative; below it the resolution of the clocks dominates
