"""Where the level of a series shifts, and by how much.

On logarithms, so that a change is relative. (1) The series is read as levels and noise of four kinds, and the cheapest
reading holds (`noise_models.py`). (2) Its changes must show in ranks too, and last (`acceptance.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..model.quantities import growth
from .acceptance import Evidence, rank_deviation
from .episodes import Episode, episodes, on_the_scale_of
from .level_path import Floats, spans
from .multiplicity import chance_anywhere
from .noise import median
from .noise_models import best_reading, jitter
from .segmentation import Reading

FEWEST = 8  # values in which a change can be told


@dataclass(frozen=True, slots=True, kw_only=True)
class Changepoint:
    """A shift of the level. Relative magnitudes: 0.04 is 4 % more than before."""

    index: int  # first value of the new level
    first: int  # 95 % set of that place, from here
    last: int  # to here
    before: float  # medians of the neighbouring segments, without excursions
    after: float
    magnitude: float
    low: float  # 95 % interval of the magnitude
    high: float
    p_value: float  # of the rank test between the segments; the place was chosen by the data, so it flatters
    chance: float  # of as much likelihood gained anywhere in a series without a change
    posterior: tuple[tuple[int, float], ...]  # of the places from `first` to `last`, with what each holds

    def among(self, places: Sequence[int]) -> "Changepoint":
        """The same change in a longer series, of which this one has the values at `places`."""
        posterior = tuple((places[place], held) for place, held in self.posterior)
        return replace(
            self, index=places[self.index], first=places[self.first], last=places[self.last], posterior=posterior
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """All that is told of a series: its steps, and what no commit is accused of."""

    changes: tuple[Changepoint, ...] = ()
    episodes: tuple[Episode, ...] = ()


def changepoints(values: Sequence[float], *, smallest_change: float = 0.0) -> tuple[Changepoint, ...]:
    """The changepoints of a series of finite values, in order; none of fewer than eight values.

    Changes below `smallest_change` (relative) are not told. A series with values at or below zero is judged on the
    scale of its median instead of logarithms.
    """
    return tell(values, smallest_change=smallest_change, with_episodes=False).changes


def tell(values: Sequence[float], *, smallest_change: float = 0.0, with_episodes: bool = True) -> Told:
    """The changepoints and the episodes of the same reading."""
    raw = np.asarray(values, dtype=float)
    if len(raw) < FEWEST:
        return Told()
    relative = _relative(raw)
    scale = jitter(relative)
    reading = best_reading(relative, scale)
    smallest = math.log1p(smallest_change)
    evidence = Evidence(reading, scale, smallest)
    parts = evidence.parts()
    stretches = spans(evidence.edges, len(raw))
    changes = tuple(
        _changepoint(raw, reading, evidence, parts[i], parts[i + 1], stretches[i], stretches[i + 1])
        for i in range(len(evidence.edges))
    )
    beside = episodes(reading, evidence, smallest) if with_episodes else ()
    return Told(changes=changes, episodes=on_the_scale_of(raw, beside))


_MEDIAN = 1.2533  # standard error of a median in those of a mean, for normal noise
_NORMAL_95 = 1.96
_UNSURE = 0.05  # what the set of places leaves out
_LARGEST_RATIO, _LARGEST_LOG = 1e304, 709.0  # so that everything told is finite


def _relative(raw: Floats) -> Floats:
    """Logarithms where all values are positive; else the values in units of their median size."""
    if (raw > 0).all():
        return np.log(raw)
    scale = median(np.abs(raw))
    return raw / scale if scale > 0 else raw / (float(np.abs(raw).max()) or 1.0)


def _changepoint(
    raw: Floats,
    reading: Reading,
    evidence: Evidence,
    left: Floats,
    right: Floats,
    before: tuple[int, int],
    after: tuple[int, int],
) -> Changepoint:
    levels = [median(part) for part in (left, right)]
    shift = levels[1] - levels[0]
    errors = [
        _MEDIAN * max(1.4826 * median(np.abs(part - level)), evidence.scale) / math.sqrt(len(part))
        for part, level in zip((left, right), levels, strict=True)
    ]
    half = _NORMAL_95 * math.hypot(*errors) * math.sqrt(evidence.variance)
    nats, posterior = _places(reading, evidence, before, after, left, right, levels)
    counted = evidence.counted[before[0] : before[1]]
    old = raw[before[0] : before[1]][counted] if counted.any() else raw[before[0] : before[1]]
    if (raw > 0).all():
        level = median(np.log(old))
        magnitude, low, high = (growth(x) for x in (shift, shift - half, shift + half))
        level, new = math.exp(level), math.exp(min(level + shift, _LARGEST_LOG))
    else:
        level = median(old)
        unit = median(np.abs(raw)) or float(np.abs(raw).max())
        new = level + shift * unit
        ratios = (x * unit / (abs(level) or 1.0) for x in (shift, shift - half, shift + half))
        magnitude, low, high = (max(min(ratio, _LARGEST_RATIO), -_LARGEST_RATIO) for ratio in ratios)
    deviation = rank_deviation(left, right) / math.sqrt(evidence.variance)
    return Changepoint(
        index=after[0],
        first=posterior[0][0],
        last=posterior[-1][0],
        before=level,
        after=new,
        magnitude=magnitude,
        low=low,
        high=high,
        p_value=math.erfc(deviation / math.sqrt(2)),
        chance=chance_anywhere(nats, len(raw)),
        posterior=posterior,
    )


def _places(
    reading: Reading,
    evidence: Evidence,
    before: tuple[int, int],
    after: tuple[int, int],
    left: Floats,
    right: Floats,
    medians: Sequence[float],
) -> tuple[float, tuple[tuple[int, float], ...]]:
    """The log likelihood that two levels gain over one, in nats, and the smallest set of neighbouring places that holds
    95 % of the posterior, with what each holds, all places being alike beforehand.

    Levels and noise density are taken as known, and the likelihood is tempered by the long-run variance (after
    Siegmund, "Confidence sets in change-point problems", International Statistical Review 56:31, 1988).
    """
    grid, density = reading.path.grid, reading.path.density
    start, end = before[0], after[1]
    values = reading.values[start:end]
    levels = [round((level - grid.low) / grid.cell) for level in medians]
    between = round((levels[0] * len(left) + levels[1] * len(right)) / (len(left) + len(right)))
    old, new, one = grid.surprise(density, values, *levels, between)
    split = after[0] - start
    nats = min(float(each.sum()) for each in (old, new, one)) - float(old[:split].sum() + new[split:].sum())
    gain = old - new
    path = np.cumsum(gain)[:-1] / evidence.variance
    weights = np.exp(path.min() - path)
    chance = (weights / weights.sum()).tolist()
    place = after[0] - start - 1
    first = last = place
    held = chance[place]
    while held < 1 - _UNSURE and (first > 0 or last < len(chance) - 1):
        earlier = chance[first - 1] if first > 0 else -1.0
        later = chance[last + 1] if last < len(chance) - 1 else -1.0
        if earlier >= later:
            first, held = first - 1, held + earlier
        else:
            last, held = last + 1, held + later
    posterior = tuple((start + 1 + at, chance[at]) for at in range(first, last + 1))
    return nats / evidence.variance, posterior
