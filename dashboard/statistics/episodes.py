"""Episodes of a series: transients, stays in another state of the machine, slow drift. No single commit caused them.

They follow from the chosen segmentation: excursions and outliers, the states of its chain, its trend.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..model.quantities import relative_change
from ..model.verdict import ChangeKind
from .acceptance import Evidence, rank_deviation
from .distributions import MEDIAN_ERROR, NORMAL_95
from .level_path import Floats, Span, spans, stretches
from .noise import median
from .segmentation import Segmentation


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A stretch of a series that differs from the values around it; of a drift, the stretch of its largest movement."""

    kind: ChangeKind
    first: int  # values from here
    last: int  # to here; never the first of the series
    before: float  # the level around it, or before a drift
    after: float  # the level in it, or after a drift
    magnitude: float  # after / before - 1
    ci_low: float  # 95 % interval of the magnitude
    ci_high: float
    p_value: float  # of the rank test between the stretch and the values around it

    def among(self, indices: list[int]) -> "Episode":
        """The same in a longer series, of which this one has the values at `indices`."""
        return replace(self, first=indices[self.first], last=indices[self.last])


_SPIKE = 8.0  # noise scales between one value and its level; of several, divided by the root of their count
_FEWEST_SCALES = 4.0  # the least in any case
_SMALLEST_SPIKES = 5  # times the smallest change
_MOST_SPIKES = 10  # the largest of a series; more are its noise
_LONGEST = 20  # values of a transient, as of an excursion in acceptance.py
_AROUND = 20  # values on each side that a stretch is compared with
_ENDS = 4  # a drift's ends are its first and last quarter


def episodes(segmentation: Segmentation, evidence: Evidence, smallest: float) -> tuple[Episode, ...]:
    """The episodes of a segmentation, in order; none smaller than `smallest` (a difference of logarithms).

    A spike is eight noise scales from its level. Of two states the stays in the rarer one are episodes.
    """
    values = segmentation.values
    level = np.empty(len(values))
    for (start, end), part in zip(spans(evidence.edges, len(values)), evidence.parts(), strict=True):
        level[start:end] = median(part)
    residuals = values - level
    scale = max(1.4826 * median(np.abs(residuals[evidence.counted])), evidence.scale)
    if segmentation.drift is not None:
        level += segmentation.drift
    seen = _Residuals(
        level=level,
        residuals=residuals,
        scale=scale,
        evidence=evidence,
        smallest=smallest,
        first_edges=segmentation.first_path.edges,
    )
    state, drift = segmentation.state, segmentation.drift
    result = [*_transients(seen, state), *_stays(seen, state), *_drift(seen, drift)]
    return tuple(sorted(result, key=lambda episode: (episode.first, episode.last)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Residuals:
    level: Floats  # by value, with the drift, without the machine's states
    residuals: Floats  # by value, without level, states and drift
    scale: float
    evidence: Evidence
    smallest: float
    first_edges: list[int]  # of the path through all values

    def episode(
        self, kind: ChangeKind, span: Span, level: float, shift: float, inside: Floats, around: Floats
    ) -> Episode:
        """The episode of a stretch that differs from `level` by `shift`, with the values inside and around it."""
        parts = math.sqrt(1 / len(inside) + 1 / max(len(around), 1))
        half = NORMAL_95 * MEDIAN_ERROR * self.scale * parts * math.sqrt(self.evidence.variance)
        deviation = rank_deviation(around, inside) / math.sqrt(self.evidence.variance) if len(around) else 0.0
        return Episode(
            kind=kind,
            first=span[0],
            last=span[1] - 1,
            before=level,
            after=level + shift,
            magnitude=shift,
            ci_low=shift - half,
            ci_high=shift + half,
            p_value=math.erfc(deviation / math.sqrt(2)),
        )

    def around(self, values: Floats, start: int, end: int, left_out: NDArray[np.bool_]) -> Floats:
        """Up to twenty values on each side of a stretch, without those of `left_out`."""
        usual = (~left_out).nonzero()[0]
        before, after = usual.searchsorted((start, end))
        near = np.concatenate([usual[max(before - _AROUND, 0) : before], usual[after : after + _AROUND]])
        return np.asarray(values[near])


def _transients(seen: _Residuals, state: Floats | None) -> list[Episode]:
    return sorted(_spikes(seen, state), key=lambda spike: -abs(spike.magnitude))[:_MOST_SPIKES]


def _spikes(seen: _Residuals, state: Floats | None) -> Iterator[Episode]:
    strays = ~seen.evidence.counted | (np.abs(seen.residuals) > _FEWEST_SCALES * seen.scale)
    for start, end in _away_from_steps(seen, strays):
        if start == 0 or end == len(strays) or end - start > _LONGEST:
            continue  # it has not returned
        inside = seen.residuals[start:end]
        shift = median(inside)
        least = max(_SPIKE / math.sqrt(end - start), _FEWEST_SCALES) * seen.scale
        if abs(shift) >= max(least, _SMALLEST_SPIKES * seen.smallest):
            around = seen.around(seen.residuals, start, end, strays)
            level = float(seen.level[start]) + (float(state[start]) if state is not None else 0.0)
            yield seen.episode(ChangeKind.TRANSIENT, (start, end), level, shift, inside, around)


def _away_from_steps(seen: _Residuals, strays: NDArray[np.bool_]) -> Iterator[Span]:
    """The stretches of strays. One with a step in it is split by the first path through all values; its parts beyond
    both levels of the step remain.
    """
    values, edges = seen.level + seen.residuals, seen.evidence.edges
    for start, end in stretches(strays):
        if not any(start <= edge <= end for edge in edges):
            yield start, end
            continue
        around = seen.level[max(start - 1, 0)], seen.level[min(end, len(values) - 1)]
        inner = [edge for edge in seen.first_edges if start < edge < end]
        for begin, stop in itertools.pairwise([start, *inner, end]):
            inside = median(values[begin:stop])
            if inside > max(around) or inside < min(around):
                yield begin, stop


def _stays(seen: _Residuals, state: Floats | None) -> Iterator[Episode]:
    """The stays in the rarer of two states."""
    if state is None or not state.any():
        return
    raised = state != 0
    height = float(state[raised][0])
    rare, shift = (raised, height) if raised.mean() <= 0.5 else (~raised, -height)
    usual = 0.0 if shift == height else height  # of the level
    if abs(shift) < seen.smallest:
        return
    values = seen.residuals + state
    for start, end in stretches(rare):
        if start > 0:
            around = seen.around(values, start, end, rare)
            level = float(seen.level[start]) + usual
            yield seen.episode(ChangeKind.MACHINE_STATE, (start, end), level, shift, values[start:end], around)


def _drift(seen: _Residuals, drift: Floats | None) -> Iterator[Episode]:
    """The movement of the trend between its lowest and its highest value."""
    if drift is None:
        return
    start, last = sorted((int(drift.argmin()), int(drift.argmax())))
    shift = float(drift[last] - drift[start])
    if abs(shift) < max(seen.smallest, seen.scale):
        return
    values = (seen.residuals + drift)[start : last + 1]
    quarter = max(len(values) // _ENDS, 1)
    ends = values[-quarter:], values[:quarter]
    yield seen.episode(ChangeKind.DRIFT, (start + 1, last + 1), float(seen.level[start]), shift, *ends)


def on_the_scale_of(raw: Floats, fitted: tuple[Episode, ...]) -> tuple[Episode, ...]:
    """Episodes in logarithms, or in units of the median, converted to levels and relative changes of `raw`."""
    positive = bool((raw > 0).all())
    unit = 1.0 if positive else median(np.abs(raw)) or float(np.abs(raw).max()) or 1.0
    return tuple(_plain(episode, unit=unit, positive=positive) for episode in fitted)


_LARGEST_RATIO, _LARGEST_LOG = 1e304, 700.0  # keep results finite


def _plain(episode: Episode, *, unit: float, positive: bool) -> Episode:
    if positive:
        before, after = (math.exp(min(level, _LARGEST_LOG)) for level in (episode.before, episode.after))
        magnitude, low, high = (relative_change(x) for x in (episode.magnitude, episode.ci_low, episode.ci_high))
    else:
        before, after = episode.before * unit, episode.after * unit
        ratios = (x / (abs(episode.before) or 1.0) for x in (episode.magnitude, episode.ci_low, episode.ci_high))
        magnitude, low, high = (max(min(ratio, _LARGEST_RATIO), -_LARGEST_RATIO) for ratio in ratios)
    return replace(episode, before=before, after=after, magnitude=magnitude, ci_low=low, ci_high=high)
