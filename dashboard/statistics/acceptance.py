"""Acceptance tests of candidate changepoints: a rank test, and a minimum duration of the level."""

import numpy as np
from numpy.typing import NDArray

from .level_path import Floats, spans, stretches
from .noise import median
from .noise_models import long_run_variance
from .segmentation import EXCURSION, Segmentation

_RANKS = 3.8  # standard deviations of the rank test
_AT_THE_END = 4.2  # the same, if the new level is the last and shorter than
_YOUNG = 20
_RANKS_IF_FAR = 3.0  # for a step of more than _FAR noise scales, which a spike or two in a short level must not hide
_SEPARATE = 0.95  # of the largest possible statistic: enough where short segments cannot reach the above
_LAST_LEVEL = 6  # values of a level at the end
_DOUBLED, _LAST_LEVEL_DOUBLED = 0.69, 4  # the same, at twice the level before or half: worth an early report
_OF_A_SHORT_SERIES = 6  # a sixth of a short series is enough
_RETURN = 20  # values within which a returning level is an excursion
_BACK = 0.6  # noise scales between the levels before and after an excursion, at most
_FAR = 6.0  # noise scales; a larger step is accepted even if it returns or follows an unsettled start
_HALF = 0.5  # of a step: an earlier excursion of that height is a precedent
_UNSETTLED = 0.15  # share of excursions in a first level
_SETTLED = 30  # values of a first level that is settled in any case
_SIGMA = 1.4826  # standard deviation in median absolute deviations, of normal noise


class Evidence:
    """The edges of a segmentation; the weakest is removed until all pass.

    A step is at least `smallest`, and `smallest_effect` times the scatter of single values around its two levels.
    """

    def __init__(self, segmentation: Segmentation, scale: float, smallest: float, smallest_effect: float = 0.0) -> None:
        self._values, self.scale = segmentation.values, scale
        self._smallest, self._smallest_effect = smallest, smallest_effect
        self._segmentation = segmentation
        self.counted: NDArray[np.bool_] = ~segmentation.excursion
        self.edges = list(segmentation.edges)
        self._variance: float | None = None
        while self.edges and self._remove_one():
            self._variance = None

    @property
    def variance(self) -> float:
        """Long-run variance of the residuals, relative to independent ones."""
        if self._variance is None:
            self._variance = long_run_variance(np.concatenate([part - median(part) for part in self.parts()]))
        return self._variance

    def parts(self) -> list[Floats]:
        """Values of every level, without excursions."""
        return [self._part(start, end) for start, end in spans(self.edges, len(self._values))]

    def _part(self, start: int, end: int) -> Floats:
        counted = self.counted[start:end]
        values = self._values[start:end]
        return values[counted] if counted.any() else values

    def _remove_one(self) -> bool:
        parts = self.parts()
        levels = [median(part) for part in parts]
        deficits = [self._deficit(parts, levels, edge) for edge in range(len(self.edges))]
        if max(deficits) > 0:
            del self.edges[deficits.index(max(deficits))]
            return True
        return self._unsettled_start(levels) or self._passing_end(levels) or self._returning(levels)

    def _deficit(self, parts: list[Floats], levels: list[float], edge: int) -> float:
        """Standard deviations missing from the rank statistic of an edge; positive if it fails."""
        left, right = parts[edge], parts[edge + 1]
        height = abs(levels[edge + 1] - levels[edge])
        if height < max(self._smallest, self._smallest_effect * self._scatter(left, right)):
            return float("inf")
        young = edge == len(self.edges) - 1 and len(right) < _YOUNG
        most = (3 * len(left) * len(right) / (len(left) + len(right) + 1)) ** 0.5
        usual = _RANKS_IF_FAR if height > _FAR * self.scale else _AT_THE_END if young else _RANKS
        needed = min(usual, _SEPARATE * most / self.variance**0.5)
        return needed - rank_deviation(left, right) / self.variance**0.5

    def _scatter(self, left: Floats, right: Floats) -> float:
        """Scale of single values around the two levels."""
        if not self._smallest_effect:
            return 0.0
        residuals = np.concatenate([left - median(left), right - median(right)])
        return max(_SIGMA * median(np.abs(residuals)), self.scale)

    def _unsettled_start(self, levels: list[float]) -> bool:
        """Remove a first level with many excursions, when the machine was being set up; whether it was removed."""
        end = self.edges[0]
        strays = int(self._segmentation.excursion[:end].sum())
        around = int(self._segmentation.excursion[: end + EXCURSION].sum())  # including those that end it
        settled = end - strays >= _SETTLED or around <= _UNSETTLED * (end - strays)
        if settled or abs(levels[1] - levels[0]) > _FAR * self.scale:
            return False
        self.counted[:end] = False
        del self.edges[0]
        return True

    def _passing_end(self, levels: list[float]) -> bool:
        """Remove a last level that is no longer than earlier excursions, or too short; whether it was removed."""
        start, count = self.edges[-1], len(self._values)
        if count - start > _RETURN:
            return False
        height = abs(levels[-1] - levels[-2])
        precedents = [
            end - begin
            for begin, end in stretches(self._segmentation.excursion[:start])
            if end < start and self._height(begin, end) > _HALF * height
        ]
        least = min(_LAST_LEVEL_DOUBLED if height > _DOUBLED else _LAST_LEVEL, count // _OF_A_SHORT_SERIES)
        if count - start >= least and count - start > max(precedents, default=0):
            return False
        self.counted[start:] = False
        del self.edges[-1]
        return True

    def _height(self, begin: int, end: int) -> float:
        around = self._values[max(begin - EXCURSION, 0) : end + EXCURSION]
        return abs(median(self._values[begin:end]) - median(around))

    def _returning(self, levels: list[float]) -> bool:
        """Remove a short level that returns to the one before; whether one was removed."""
        for index, (start, end) in enumerate(zip(self.edges, self.edges[1:], strict=False)):
            step = abs(levels[index + 1] - levels[index])
            rest = abs(levels[index + 2] - levels[index])
            near = step < _FAR * self.scale and rest < _BACK * self.scale
            if near and end - start <= _RETURN:
                self.counted[start:end] = False
                del self.edges[index : index + 2]
                return True
        return False


def rank_deviation(left: Floats, right: Floats) -> float:
    """Absolute Mann-Whitney statistic in standard deviations, corrected for ties."""
    both = np.concatenate([left, right])
    a, b, n = len(left), len(right), len(both)
    order = both.argsort()
    ordered = both[order]
    edges = (ordered[1:] != ordered[:-1]).nonzero()[0]  # between runs of equal values
    if len(edges) == n - 1:
        ranks, ties = float((order < a).nonzero()[0].sum()) + a, 0.0
    else:
        ends = np.append(edges + 1, n)
        counts = ends.copy()
        counts[1:] -= ends[:-1]
        ranks = float((ends - (counts - 1) / 2).repeat(counts)[order < a].sum())
        ties = float((counts.astype(float) ** 3 - counts).sum()) / (n * (n - 1))
    beyond = ranks - a * (a + 1) / 2 - a * b / 2
    variance = a * b / 12 * (n + 1 - ties)
    return abs(beyond) / variance**0.5 if variance > 0 else 0.0
