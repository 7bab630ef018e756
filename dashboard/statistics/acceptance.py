"""What a change must show beside being the cheapest explanation: ranks that differ, and a level that lasts."""

import numpy as np
from numpy.typing import NDArray

from .level_path import Floats, spans, stretches
from .noise import median
from .noise_models import long_run_variance
from .segmentation import EXCURSION, Reading

_RANKS = 3.8  # normal deviations of the rank test
_AT_THE_END = 4.2  # where the new level is the last and holds fewer values than
_YOUNG = 20
_RANKS_IF_FAR = 3.0  # for a step of more than _FAR noise scales, which a spike or two must not hide in a short level
_SEPARATE = 0.95  # of the most that the rank test can show: enough where it has too little to count
_LAST_LEVEL = 6  # values that a level at the end must hold
_DOUBLED, _LAST_LEVEL_DOUBLED = 0.69, 4  # or so few, at twice the one before or half: that is worth a look at once
_OF_A_SHORT_SERIES = 6  # a sixth of a short series is enough
_RETURN = 20  # values within which a level that comes back was an excursion, if it comes back
_BACK = 0.6  # to within so many noise scales
_FAR = 6.0  # noise scales: a level so far off is believed, though it return or follow an unsettled start
_HALF = 0.5  # of a step: an earlier excursion of that height is a precedent
_UNSETTLED = 0.15  # share of excursions in a first level
_SETTLED = 30  # values that make up for it


class Evidence:
    """The edges of a reading, weakest taken back until all hold."""

    def __init__(self, reading: Reading, scale: float, smallest: float) -> None:
        self._values, self.scale, self._smallest = reading.values, scale, smallest
        self._reading = reading
        self.counted: NDArray[np.bool_] = ~reading.excursion
        self.edges = list(reading.edges)
        self._variance: float | None = None
        while self.edges and self._take_back_one():
            self._variance = None

    @property
    def variance(self) -> float:
        """Of the residuals: long-run over independent."""
        if self._variance is None:
            self._variance = long_run_variance(np.concatenate([part - median(part) for part in self.parts()]))
        return self._variance

    def parts(self) -> list[Floats]:
        """The values of every level, without excursions."""
        return [self._part(start, end) for start, end in spans(self.edges, len(self._values))]

    def _part(self, start: int, end: int) -> Floats:
        counted = self.counted[start:end]
        values = self._values[start:end]
        return values[counted] if counted.any() else values

    def _take_back_one(self) -> bool:
        parts = self.parts()
        levels = [median(part) for part in parts]
        lacking = [self._lacking(parts, levels, place) for place in range(len(self.edges))]
        if max(lacking) > 0:
            del self.edges[lacking.index(max(lacking))]
            return True
        return self._unsettled_start(levels) or self._passing_end(levels) or self._returning(levels)

    def _lacking(self, parts: list[Floats], levels: list[float], place: int) -> float:
        """Normal deviations that the change at an edge is short of; positive where it does not hold."""
        left, right = parts[place], parts[place + 1]
        height = abs(levels[place + 1] - levels[place])
        if height < self._smallest:
            return float("inf")
        young = place == len(self.edges) - 1 and len(right) < _YOUNG
        most = (3 * len(left) * len(right) / (len(left) + len(right) + 1)) ** 0.5
        usual = _RANKS_IF_FAR if height > _FAR * self.scale else _AT_THE_END if young else _RANKS
        wanted = min(usual, _SEPARATE * most / self.variance**0.5)
        return wanted - rank_deviation(left, right) / self.variance**0.5

    def _unsettled_start(self, levels: list[float]) -> bool:
        """Whether the first level went, because the machine was still being set up."""
        end = self.edges[0]
        strays = int(self._reading.excursion[:end].sum())
        around = int(self._reading.excursion[: end + EXCURSION].sum())  # those that end it count, too
        settled = end - strays >= _SETTLED or around <= _UNSETTLED * (end - strays)
        if settled or abs(levels[1] - levels[0]) > _FAR * self.scale:
            return False
        self.counted[:end] = False
        del self.edges[0]
        return True

    def _passing_end(self, levels: list[float]) -> bool:
        """Whether the last level went, because it may pass: it has lasted no longer than an excursion before it."""
        start, count = self.edges[-1], len(self._values)
        if count - start > _RETURN:
            return False
        height = abs(levels[-1] - levels[-2])
        precedents = [
            end - begin
            for begin, end in stretches(self._reading.excursion[:start])
            if end < start and self._height(begin, end) > _HALF * height
        ]
        wanted = min(_LAST_LEVEL_DOUBLED if height > _DOUBLED else _LAST_LEVEL, count // _OF_A_SHORT_SERIES)
        if count - start >= wanted and count - start > max(precedents, default=0):
            return False
        self.counted[start:] = False
        del self.edges[-1]
        return True

    def _height(self, begin: int, end: int) -> float:
        around = self._values[max(begin - EXCURSION, 0) : end + EXCURSION]
        return abs(median(self._values[begin:end]) - median(around))

    def _returning(self, levels: list[float]) -> bool:
        """Whether a level went that came back to the one before it soon."""
        for place, (start, end) in enumerate(zip(self.edges, self.edges[1:], strict=False)):
            way = abs(levels[place + 1] - levels[place])
            left = abs(levels[place + 2] - levels[place])
            near = way < _FAR * self.scale and left < _BACK * self.scale
            if near and end - start <= _RETURN:
                self.counted[start:end] = False
                del self.edges[place : place + 2]
                return True
        return False


def rank_deviation(left: Floats, right: Floats) -> float:
    """Size of the Mann-Whitney statistic in its standard deviations, ties corrected."""
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
