"""Which commit to measure next: the one whose run is expected to tell most of the culprit, for what it costs.

The information between the next value and the culprit (Lindley, "On a measure of the information provided by an
experiment", Ann. Math. Statist. 27:986, 1956), over the seconds of building and measuring. Without noise and at equal
cost that halves what is left, as git bisect does; with noise it comes back to commits near the likely culprit.
"""

from collections.abc import Callable, Collection

import numpy as np

from warpwatch.ci.bisect.posterior import Posterior
from warpwatch.ci.bisect.runs import Floats
from warpwatch.ci.bisect.standing import TAIL_FREEDOM

_POINTS, _BEYOND = 121, 5.0  # of a value's axis; noise scales beyond the outermost level
_AS_GOOD = 0.99
_NEGLIGIBLE = 1e-3  # of a gap's chance: a commit in there is not worth a run


def next_place(now: Posterior, skipped: Collection[int], cost_s: Callable[[int], float]) -> int | None:
    """The place to measure next, measured before or not, without those that cannot be; None if none tells anything."""
    found: list[tuple[float, float, int]] = []  # worth, suspicion, place
    told = _Values(now)
    for gap in range(1, len(now.measured)):
        if now.gaps[gap] < _NEGLIGIBLE:
            continue
        low, high = int(now.measured[gap - 1]), int(now.measured[gap])
        its = now.chance[low:high]
        sums = np.cumsum(its) / its.sum()
        inner = [each for each in range(low + 1, high) if each not in skipped]
        shares = [float(sums[each - low - 1]) for each in inner]
        for each, share in zip((low, high, *inner), (0.0, 1.0, *shares), strict=True):
            suspected = float(now.chance[each - 1]) if each else 0.0
            found.append((told.information(gap, share) / cost_s(each), suspected, each))
    best = max((worth for worth, _, _ in found), default=0.0)
    if best <= 0:
        return None
    # Of commits that tell about the same, the one that is itself suspected: its neighbours may be known to be idle.
    return max((suspected, worth, place) for worth, suspected, place in found if worth >= _AS_GOOD * best)[2]


class _Values:
    """How the next value may fall, in each reading of what was measured."""

    def __init__(self, now: Posterior) -> None:
        reading = now.readings
        reach = _BEYOND * now.scale
        axis = np.linspace(float(reading.level.min()) - reach, float(reading.level.max()) + reach, _POINTS)
        spread = np.hypot(now.scale, reading.spread)[..., None]
        away = (axis - reading.level[..., None]) / spread
        density = (1 + away**2 / TAIL_FREEDOM) ** (-(TAIL_FREEDOM + 1) / 2) / spread
        self._density = density / density.sum(axis=2, keepdims=True)  # reading x measured x axis
        self._reading = reading
        self._gaps = np.unique(reading.culprit)

    def information(self, gap: int, share: float) -> float:
        """In nats: of a run at a commit by which the step of this gap has come with that chance, if it is in there."""
        before, after = self._density[:, gap - 1], self._density[:, gap]
        mixed = (1 - share) * before + share * after
        weight, culprit = self._reading.weight, self._reading.culprit
        inside = culprit == gap
        parts = [(weight[culprit == each], mixed[culprit == each]) for each in self._gaps if each != gap]
        parts += [(weight[inside] * (1 - share), before[inside]), (weight[inside] * share, after[inside])]
        whole = _entropy(weight @ mixed)
        return whole - sum(float(w.sum()) * _entropy(w @ d / w.sum()) for w, d in parts if w.sum() > 0)


def _entropy(chances: Floats) -> float:
    positive = chances[chances > 0]
    return -float(positive @ np.log(positive))
