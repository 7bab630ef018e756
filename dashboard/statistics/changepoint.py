"""Changepoints of a series: position, size, confidence interval.

On logarithms, so that changes are relative. (1) The series is fitted as levels and one of four kinds of noise; the
segmentation of least description length wins (`noise_models.py`). (2) Each of its changes must pass acceptance tests
(`acceptance.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..model.quantities import relative_change
from .acceptance import Evidence, rank_deviation
from .distributions import MEDIAN_ERROR, NORMAL_95, selection_adjusted_p_value
from .episodes import Episode, episodes, on_the_scale_of
from .level_path import Floats, spans
from .noise import median
from .noise_models import best_segmentation, jitter
from .segmentation import Segmentation

FEWEST = 8  # values, to detect a change


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjusted:
    """What a change of GPU-adjusted values rests on (gpu_history.py)."""

    is_across: bool  # no GPU measured the last commit before and the first after
    gpus: int  # that measured the new level
    family: int  # series of ours that were compared at its commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Changepoint:
    """A shift of the level. Relative magnitudes: 0.04 is 4 % more than before."""

    index: int  # first value of the new level
    before: float  # medians of the neighbouring segments, without excursions
    after: float
    magnitude: float
    ci_low: float  # 95 % interval of the magnitude
    ci_high: float
    p_value: float  # of the rank test between the segments; too small, as the data selected the index
    p_adjusted: float  # adjusted for that selection
    posterior: tuple[tuple[int, float], ...]  # 95 % credible set of the index, in order, with the probability of each
    adjusted: Adjusted | None = None  # None: of values as one GPU measured them
    is_confirmed: bool = False  # by runs of both commits in turns (detection.py)

    def among(self, indices: Sequence[int]) -> "Changepoint":
        """The same change in a longer series, of which this one has the values at `indices`."""
        posterior = tuple((indices[index], probability) for index, probability in self.posterior)
        return replace(self, index=indices[self.index], posterior=posterior)

    @property
    def first(self) -> int:
        """The first index of the credible set."""
        return self.posterior[0][0]

    @property
    def last(self) -> int:
        return self.posterior[-1][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """Findings in a series: changepoints, and episodes, which no single commit caused."""

    changes: tuple[Changepoint, ...] = ()
    episodes: tuple[Episode, ...] = ()


def find_changes(values: Sequence[float], *, smallest_change: float = 0.0, smallest_effect: float = 0.0) -> Detection:
    """Changepoints and episodes of a series of finite values, in order; none with fewer than eight values.

    Changes below `smallest_change` (relative) are left out, and those below `smallest_effect` times the scatter of
    single values around both levels. A series with values at or below zero is analysed in units of its median instead
    of logarithms.
    """
    raw = np.asarray(values, dtype=float)
    if len(raw) < FEWEST:
        return Detection()
    relative = _relative(raw)
    scale = jitter(relative)
    segmentation = best_segmentation(relative, scale)
    smallest = math.log1p(smallest_change)
    evidence = Evidence(segmentation, scale, smallest, smallest_effect)
    parts = evidence.parts()
    stretches = spans(evidence.edges, len(raw))
    changes = tuple(
        _changepoint(raw, segmentation, evidence, parts[i], parts[i + 1], stretches[i], stretches[i + 1])
        for i in range(len(evidence.edges))
    )
    other = episodes(segmentation, evidence, smallest)
    return Detection(changes=changes, episodes=on_the_scale_of(raw, other))


_UNSURE = 0.05  # probability outside the credible set
_LARGEST_RATIO, _LARGEST_LOG = 1e304, 709.0  # keep results finite


def _relative(raw: Floats) -> Floats:
    """Logarithms where all values are positive; else the values in units of their median size."""
    if (raw > 0).all():
        return np.log(raw)
    scale = median(np.abs(raw))
    return raw / scale if scale > 0 else raw / (float(np.abs(raw).max()) or 1.0)


def _changepoint(
    raw: Floats,
    segmentation: Segmentation,
    evidence: Evidence,
    left: Floats,
    right: Floats,
    before: tuple[int, int],
    after: tuple[int, int],
) -> Changepoint:
    levels = [median(part) for part in (left, right)]
    shift = levels[1] - levels[0]
    errors = [
        MEDIAN_ERROR * max(1.4826 * median(np.abs(part - level)), evidence.scale) / math.sqrt(len(part))
        for part, level in zip((left, right), levels, strict=True)
    ]
    half = NORMAL_95 * math.hypot(*errors) * math.sqrt(evidence.variance)
    nats, posterior = _posterior(segmentation, evidence, before, after, left, right, levels)
    counted = evidence.counted[before[0] : before[1]]
    old = raw[before[0] : before[1]][counted] if counted.any() else raw[before[0] : before[1]]
    if (raw > 0).all():
        level = median(np.log(old))
        magnitude, low, high = (relative_change(x) for x in (shift, shift - half, shift + half))
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
        before=level,
        after=new,
        magnitude=magnitude,
        ci_low=low,
        ci_high=high,
        p_value=math.erfc(deviation / math.sqrt(2)),
        p_adjusted=selection_adjusted_p_value(nats, len(raw)),
        posterior=posterior,
    )


def _posterior(
    segmentation: Segmentation,
    evidence: Evidence,
    before: tuple[int, int],
    after: tuple[int, int],
    left: Floats,
    right: Floats,
    medians: Sequence[float],
) -> tuple[float, tuple[tuple[int, float], ...]]:
    """Log likelihood ratio of two levels to one, in nats, and the smallest set of neighbouring indices with 95 % of the
    posterior (uniform prior), with the probability of each.

    Levels and noise density are taken as known, and the likelihood is tempered by the long-run variance (after
    Siegmund, "Confidence sets in change-point problems", International Statistical Review 56:31, 1988).
    """
    grid, density = segmentation.path.grid, segmentation.path.density
    start, end = before[0], after[1]
    values = segmentation.values[start:end]
    levels = [round((level - grid.low) / grid.cell) for level in medians]
    between = round((levels[0] * len(left) + levels[1] * len(right)) / (len(left) + len(right)))
    old, new, one = grid.surprise(density, values, *levels, between)
    split = after[0] - start
    nats = min(float(losses.sum()) for losses in (old, new, one)) - float(old[:split].sum() + new[split:].sum())
    gain = old - new
    path = np.cumsum(gain)[:-1] / evidence.variance
    weights = np.exp(path.min() - path)
    probability = (weights / weights.sum()).tolist()
    first, last = credible_set(probability, after[0] - start - 1)
    posterior = tuple((start + 1 + at, probability[at]) for at in range(first, last + 1))
    return nats / evidence.variance, posterior


def credible_set(probability: Sequence[float], around: int) -> tuple[int, int]:
    """First and last of the smallest set of neighbours of `around` with 95 % of the probability."""
    first = last = around
    total = probability[around]
    while total < 1 - _UNSURE and (first > 0 or last < len(probability) - 1):
        earlier = probability[first - 1] if first > 0 else -1.0
        later = probability[last + 1] if last < len(probability) - 1 else -1.0
        if earlier >= later:
            first, total = first - 1, total + earlier
        else:
            last, total = last + 1, total + later
    return first, last
