"""A machine's state told from a commit: what its controls did across the place of a change, and their share of it.

Controls are work that no commit changes: canaries, baselines. Where there is none the machine's other series are told
beside, but as they may share what the commit changed they decide nothing. Their
shift is the difference of medians of up to ten commits on each side of the range in which the change lies with 95 %,
on logarithms. It is the machine's part of the change as it would be in another kernel, so that how far the controls
differ from each other counts, and not how well their mean is known.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.quantities import growth
from ..model.verdict import Control
from .noise import median

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


FEWEST = {Control.CANARIES: 1, Control.BASELINES: 3, Control.OTHERS: 12}  # that make themselves heard

WINDOW = 10  # commits on each side
_BLOCK = 256  # places
_MEDIAN = 1.2533  # standard error of a median in those of a mean, for normal noise
_NORMAL_95 = 1.96
_MANY = 5  # controls, of which a tenth at each end may go its own way
_TENTH = 0.1
_MOSTLY = 0.5  # the machine's share of a change beyond which it is the machine's


class Shift(NamedTuple):
    """A difference of logarithms, and where it lies with 95 %."""

    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half of the interval."""
        return (self.high - self.low) / 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shifts:
    """Of controls across ranges: an array has a row for each range and a column for each control; NaN: not known."""

    value: Floats
    error: Floats  # standard error


def control_shifts(levels: Floats, before: Ints, after: Ints) -> Shifts:
    """What controls did across ranges of commits.

    `levels` has the logarithms by control and commit, NaN where there is none. A range lies between the commits in
    front of place `before` and those from place `after` on.
    """
    near = np.arange(WINDOW)
    (old, old_count), (new, new_count) = (
        _medians_beside(levels, places, beside) for places, beside in ((before, -1 - near), (after, near))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        error = _MEDIAN * _scales(levels) * np.sqrt(1 / old_count + 1 / new_count)
    return Shifts(value=new - old, error=error)


def _medians_beside(levels: Floats, places: Ints, beside: Ints) -> tuple[Floats, Floats]:
    """Of the levels beside each place the medians by place and control, and how many values they are of.

    Ranges are many and places few, so that each place is looked at once; a block of them at a time, so that what is
    taken apart needs no more memory than the levels themselves.
    """
    each, of_place = np.unique(places, return_inverse=True)
    found = []
    for block in np.array_split(each, len(each) // _BLOCK + 1):
        at = block[:, None] + beside
        there = (at >= 0) & (at < levels.shape[1])
        found.append(_medians(np.where(there, levels[:, np.where(there, at, 0)], np.nan)))
    medians, counts = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
    return medians.T[of_place], counts.T[of_place]


def machine_shifts(shifts: Floats, errors: Floats) -> list[Shift]:
    """The machine's movement as it would be in another kernel, by row of the shifts of one control or more and of their
    errors; NaN: of a control that does not count.

    Between their extremes, from five controls on between the tenths at both ends, widened by what their medians err.
    """
    count = (~np.isnan(shifts)).sum(axis=1)
    ordered, errors = np.sort(shifts, axis=1), np.sort(errors, axis=1)  # NaN last
    edge = np.where(count >= _MANY, _TENTH, 0.0)
    reach = _NORMAL_95 * _quantiles(errors, count, 0.5) / np.sqrt(count)
    low, middle, high = (_quantiles(ordered, count, level) for level in (edge, 0.5, 1 - edge))
    return [Shift(*each) for each in zip(middle.tolist(), (low - reach).tolist(), (high + reach).tolist(), strict=True)]


def _quantiles(ordered: Floats, count: Ints, level: Floats | float) -> Floats:
    """Of the first `count` values of each row, between neighbours in proportion."""
    place = level * (count - 1)
    below = place.astype(int)
    row = np.arange(len(ordered))
    lower, upper = ordered[row, below], ordered[row, np.minimum(below + 1, count - 1)]
    return np.asarray(lower + (place - below) * (upper - lower))


def share(change: Shift, machine: Shift) -> Shift:
    """The machine's part of a change as a share of it: 1 is all of it, below 0 against it. By propagation of errors.

    The change must not be 0.
    """
    told = machine.value / change.value
    below, above = machine.value - machine.low, machine.high - machine.value
    if change.value < 0:
        below, above = above, below
    own, size = abs(told) * change.half, abs(change.value)
    return Shift(value=told, low=told - math.hypot(below, own) / size, high=told + math.hypot(above, own) / size)


def remainder(change: Shift, machine: Shift) -> Shift:
    """The change with the machine's part taken out."""
    value = change.value - machine.value
    low = value - math.hypot(change.value - change.low, machine.high - machine.value)
    return Shift(value=value, low=low, high=value + math.hypot(change.high - change.value, machine.value - machine.low))


def is_machines(its_share: Shift, rest: Shift, smallest: float) -> bool:
    """Whether a change is a state of the machine: surely half of it or more, and what may remain is nothing to tell.

    `smallest` is the smallest change that is told, relative.
    """
    if its_share.low <= _MOSTLY:
        return False
    return its_share.high >= 1 or abs(growth(rest.value)) < smallest


def _medians(values: Floats) -> tuple[Floats, Floats]:
    """Medians over the last axis, NaN left out, and how many values they are of."""
    ordered = np.sort(values, axis=-1)  # NaN last
    count = (~np.isnan(values)).sum(axis=-1)
    middle = [
        np.take_along_axis(ordered, place[..., None], -1)[..., 0]
        for place in (np.maximum(count - 1, 0) // 2, count // 2)
    ]
    return (middle[0] + np.where(count > 0, middle[1], np.nan)) / 2, count.astype(float)


def _scales(levels: Floats) -> Floats:
    """Of each control the noise of one value, from its neighbours; that of all where one has too few."""
    scales = np.full(len(levels), np.nan)
    for place, row in enumerate(levels):
        values = row[~np.isnan(row)]
        if len(values) > _MANY:
            scales[place] = median(np.abs(values[1:] - values[:-1])) / 0.9539  # of normal noise: 0.6745 sqrt 2
    known = scales[~np.isnan(scales)]
    usual = median(known) if len(known) else _ASSUMED
    return np.maximum(np.where(np.isnan(scales), usual, scales), _FLOOR)


_ASSUMED = 0.02  # of a control between runs, where none tells
_FLOOR = 1e-4  # relative, below which the clocks' own resolution rules
