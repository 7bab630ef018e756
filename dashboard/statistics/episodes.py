"""What a series shows beside its steps, so that who saw it finds it named: spikes, stays in another state, slow drift.

No commit is accused of them. They are read off the explanation of the series that held: values set aside or far from
their level, the states of the chain, the trend.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..model.quantities import growth
from ..model.verdict import ChangeKind
from .acceptance import Evidence, rank_deviation
from .level_path import Floats, Span, spans, stretches
from .noise import median
from .segmentation import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A stretch of a series that differs from what is around it; of a drift, the stretch over which it moved most."""

    kind: ChangeKind
    first: int  # values from here
    last: int  # to here; never the first of the series, since something must have been before
    before: float  # the level around it, or before a drift
    after: float  # the level in it, or after a drift
    magnitude: float  # after / before - 1
    low: float  # 95 % interval of the magnitude
    high: float
    p_value: float  # of the rank test between the stretch and what is around it

    def among(self, places: list[int]) -> "Episode":
        """The same in a longer series, of which this one has the values at `places`."""
        return replace(self, first=places[self.first], last=places[self.last])


_SPIKE = 8.0  # noise scales that one value must stray, or several together over the root of their count
_FEWEST_SCALES = 4.0  # that any must
_SMALLEST_SPIKES = 5  # of the smallest changes that are told
_MOST_SPIKES = 10  # of a series: the largest; where there are more, they are its noise
_LONGEST = 20  # values of a transient: acceptance.py calls a level that returns within so many an excursion
_AROUND = 20  # values on each side that a stretch is compared with
_MEDIAN = 1.2533  # standard error of a median in those of a mean, for normal noise
_NORMAL_95 = 1.96
_ENDS = 4  # a drift's ends are its first and last quarter


def episodes(reading: Reading, evidence: Evidence, smallest: float) -> tuple[Episode, ...]:
    """What the reading shows beside its steps, in order; nothing smaller than `smallest` (a difference of logarithms).

    A spike counts where it strays by eight noise scales. Of two states the rarer is told, stay by stay.
    """
    values = reading.values
    level = np.empty(len(values))
    for (start, end), part in zip(spans(evidence.edges, len(values)), evidence.parts(), strict=True):
        level[start:end] = median(part)
    residuals = values - level
    scale = max(1.4826 * median(np.abs(residuals[evidence.counted])), evidence.scale)
    if reading.drift is not None:
        level += reading.drift
    seen = _Seen(
        level=level,
        residuals=residuals,
        scale=scale,
        evidence=evidence,
        smallest=smallest,
        first_edges=reading.first_path.edges,
    )
    found = [*_transients(seen, reading.state), *_stays(seen, reading.state), *_drift(seen, reading.drift)]
    return tuple(sorted(found, key=lambda each: (each.first, each.last)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    level: Floats  # by value, with the drift, without the machine's states
    residuals: Floats  # what remains of each, the machine's states and the drift taken off
    scale: float
    evidence: Evidence
    smallest: float
    first_edges: list[int]  # of the path through everything

    def episode(
        self, kind: ChangeKind, span: Span, level: float, shift: float, inside: Floats, around: Floats
    ) -> Episode:
        """A stretch that lies `shift` off a level, told by its values and by those around it."""
        parts = math.sqrt(1 / len(inside) + 1 / max(len(around), 1))
        half = _NORMAL_95 * _MEDIAN * self.scale * parts * math.sqrt(self.evidence.variance)
        deviation = rank_deviation(around, inside) / math.sqrt(self.evidence.variance) if len(around) else 0.0
        return Episode(
            kind=kind,
            first=span[0],
            last=span[1] - 1,
            before=level,
            after=level + shift,
            magnitude=shift,
            low=shift - half,
            high=shift + half,
            p_value=math.erfc(deviation / math.sqrt(2)),
        )

    def around(self, values: Floats, start: int, end: int, left_out: NDArray[np.bool_]) -> Floats:
        """Up to twenty values on each side of a stretch that belong to what is usual there."""
        usual = (~left_out).nonzero()[0]
        before, after = usual.searchsorted((start, end))
        near = np.concatenate([usual[max(before - _AROUND, 0) : before], usual[after : after + _AROUND]])
        return np.asarray(values[near])


def _transients(seen: _Seen, state: Floats | None) -> list[Episode]:
    found = sorted(_spikes(seen, state), key=lambda each: -abs(each.magnitude))
    return found[:_MOST_SPIKES]


def _spikes(seen: _Seen, state: Floats | None) -> Iterator[Episode]:
    strays = ~seen.evidence.counted | (np.abs(seen.residuals) > _FEWEST_SCALES * seen.scale)
    for start, end in _away_from_steps(seen, strays):
        if start == 0 or end == len(strays) or end - start > _LONGEST:
            continue  # it has not returned
        inside = seen.residuals[start:end]
        shift = median(inside)
        wanted = max(_SPIKE / math.sqrt(end - start), _FEWEST_SCALES) * seen.scale
        if abs(shift) >= max(wanted, _SMALLEST_SPIKES * seen.smallest):
            around = seen.around(seen.residuals, start, end, strays)
            level = float(seen.level[start]) + (float(state[start]) if state is not None else 0.0)
            yield seen.episode(ChangeKind.TRANSIENT, (start, end), level, shift, inside, around)


def _away_from_steps(seen: _Seen, strays: NDArray[np.bool_]) -> Iterator[Span]:
    """The stretches of strays. One with a step in it falls into what the first path through everything made of it, of
    which those are told that lie beyond both levels: between them they are on the way.
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


def _stays(seen: _Seen, state: Floats | None) -> Iterator[Episode]:
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


def _drift(seen: _Seen, drift: Floats | None) -> Iterator[Episode]:
    """The largest way that the trend went, between its lowest and its highest place."""
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


def on_the_scale_of(raw: Floats, found: tuple[Episode, ...]) -> tuple[Episode, ...]:
    """Episodes of logarithms as levels and relative changes; of a series in units of its median size, likewise."""
    positive = bool((raw > 0).all())
    unit = 1.0 if positive else median(np.abs(raw)) or float(np.abs(raw).max()) or 1.0
    return tuple(_plain(each, unit=unit, positive=positive) for each in found)


_LARGEST_RATIO, _LARGEST_LOG = 1e304, 700.0  # so that everything told is finite


def _plain(each: Episode, *, unit: float, positive: bool) -> Episode:
    if positive:
        before, after = (math.exp(min(level, _LARGEST_LOG)) for level in (each.before, each.after))
        magnitude, low, high = (growth(x) for x in (each.magnitude, each.low, each.high))
    else:
        before, after = each.before * unit, each.after * unit
        ratios = (x / (abs(each.before) or 1.0) for x in (each.magnitude, each.low, each.high))
        magnitude, low, high = (max(min(ratio, _LARGEST_RATIO), -_LARGEST_RATIO) for ratio in ratios)
    return replace(each, before=before, after=after, magnitude=magnitude, low=low, high=high)
