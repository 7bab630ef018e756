"""The loop of a bisect: the next run has the most expected information per second."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

import numpy as np

from .measured_runs import ExpectedNoise, Floats, Run
from .noise_models import TAIL_DF
from .posterior import Posterior, posterior

# The next commit maximizes the information between the next value and the culprit (Lindley, "On a measure of the
# information provided by an experiment", Ann. Math. Statist. 27:986, 1956) per second of building and measuring.
# Without noise and at equal cost that is binary search, as in git bisect; with noise it returns to commits near the
# likely culprit.

_POINTS, _BEYOND = 121, 5.0  # of a value's axis; noise scales beyond the outermost level
_AS_GOOD = 0.99
_NEGLIGIBLE = 1e-3  # of a gap's chance: a commit in there is not worth a run


def next_place(now: Posterior, skipped: Collection[int], cost_s: Callable[[int], float]) -> int | None:
    """The index of the commit to measure next, excluding the unmeasurable ones; None if no run has information."""
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
    """Predictive distributions of the next value, one for each segmentation."""

    def __init__(self, now: Posterior) -> None:
        reading = now.readings
        reach = _BEYOND * now.scale
        axis = np.linspace(float(reading.level.min()) - reach, float(reading.level.max()) + reach, _POINTS)
        spread = np.hypot(now.scale, reading.spread)[..., None]
        away = (axis - reading.level[..., None]) / spread
        density = (1 + away**2 / TAIL_DF) ** (-(TAIL_DF + 1) / 2) / spread
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


class End(StrEnum):
    """Why a bisect ended."""

    FOUND = "found"
    RANGE = "range"  # one of several commits, of which only the last can be measured
    BLOCKED = "blocked"  # no possible run has information
    NOT_REPRODUCED = "not reproduced"  # the ends do not differ on this machine
    UNSURE_ENDS = "unsure ends"  # the ends are too noisy to compare
    NO_END = "no end"  # an end cannot be built or measured
    SPENT = "spent"  # out of budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspects:
    """Neighbouring commits that no run can distinguish, and their joint posterior probability."""

    first: int
    last: int
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The result of a bisect. `now` is None if an end could not be measured."""

    end: End
    runs: tuple[Run, ...]  # in order of time, without the machine's drift
    skipped: frozenset[int]  # indices of unmeasurable commits
    now: Posterior | None
    suspects: Suspects | None  # the likeliest
    seconds: float


def likeliest(now: Posterior, skipped: Collection[int]) -> Suspects:
    """The likeliest commit, with its neighbours that only a run of a skipped commit could tell from it."""
    count = len(now.chance)
    chances = np.concatenate([[0.0], now.chance])
    best = Suspects(first=1, last=1, chance=-1.0)
    first = 1
    for place in range(1, count + 1):
        if place in skipped and place < count:
            continue  # whether it came with this one or the next nobody can measure
        chance = float(chances[first : place + 1].sum())
        if chance > best.chance:
            best = Suspects(first=first, last=place, chance=chance)
        first = place + 1
    return best


_SURE_ENDS = 0.998  # probability of the sign of the change
_LEAST_END_RUNS, _MOST_END_RUNS = 2, 12  # of each end, before the search begins
_END_AGAIN = 4  # every fourth run measures an end again, to estimate the drift
_NO_CHANGE = 2.5  # standard errors within which a change of the wanted size would have shown


class Bench(Protocol):
    """Measures commits."""

    def measure(self, place: int) -> Run | None:
        """One run of a commit; None if it cannot be built or measured."""

    def cost_s(self, place: int) -> float:
        """Expected seconds of a run, with the build if it is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """When a search ends."""

    confidence: float = 0.99
    smallest: float = 0.01  # log change of the ends below which there is nothing to look for
    budget_s: float = 3600.0


def search(
    bench: Bench,
    prior: Callable[[], Floats],
    noise: ExpectedNoise,
    wanted: SearchSettings,
    *,
    runs: Iterable[Run] = (),
    skipped: Iterable[int] = (),
    clock: Callable[[], float] = time.monotonic,
    watch: Callable[[Posterior, Suspects, int], None] = lambda now, suspects, runs: None,
) -> Search:
    """Finds the culprit among places 1 to n, as many as `prior` gives weights; place 0 is the good end.

    The prior is asked for before each run: what was measured may tell of compiled code. `runs` and `skipped` are what
    an earlier call measured. No run begins that would likely end beyond the budget, but for the first two of each end.
    `watch` is told what is known before each run, and after how many, once the ends are known to differ.
    """
    return _Loop(bench, prior, noise, wanted, list(runs), set(skipped), clock, watch).run()


class _Loop:
    def __init__(
        self,
        bench: Bench,
        prior: Callable[[], Floats],
        noise: ExpectedNoise,
        wanted: SearchSettings,
        runs: list[Run],
        skipped: set[int],
        clock: Callable[[], float],
        watch: Callable[[Posterior, Suspects, int], None],
    ) -> None:
        self._bench, self._prior, self._noise, self._wanted = bench, prior, noise, wanted
        self._runs, self._skipped, self._clock, self._watch = runs, skipped, clock, watch
        self._last = len(prior())
        self._began = clock()
        self._since_an_end = 0

    def run(self) -> Search:
        """Runs the search."""
        ended = self._ends()
        while ended is None:
            now = self._now()
            suspects = likeliest(now, self._skipped)
            self._watch(now, suspects, len(self._runs))
            is_sure = suspects.chance >= self._wanted.confidence
            place = self._once(suspects) if is_sure else self._next(now)
            if place is None:
                ended = End.BLOCKED if not is_sure else End.FOUND if suspects.first == suspects.last else End.RANGE
            elif self._is_late(place):
                ended = End.SPENT
            else:
                self._measure(place)
        return self._ended(ended)

    def _ends(self) -> End | None:
        """Measures both ends until it is clear whether they differ; None if they do."""
        while True:
            counts = Counter(run.place for run in self._runs)
            here = [counts[0], counts[self._last]]
            if min(here) >= _LEAST_END_RUNS:
                told = self._do_ends_differ(min(here))
                if told is not None:
                    return None if told is End.FOUND else told
            # A B B A: linear drift affects both alike.
            turn = here[0] > here[1] or (here[0] == here[1] and here[0] % 2 == 1)
            place = self._last if turn else 0
            if min(here) >= _LEAST_END_RUNS and self._is_late(place):
                return End.SPENT
            if not self._measure(place):
                return End.NO_END

    def _do_ends_differ(self, count: int) -> End | None:
        """FOUND if they do, NOT_REPRODUCED, UNSURE_ENDS; None: measure on."""
        ends = [run for run in self._runs if run.place in (0, self._last)]
        now = posterior(np.ones(1), [replace(run, place=int(run.place > 0)) for run in ends], self._noise)
        size = abs(now.change)
        if now.sign_chance >= _SURE_ENDS and size >= self._wanted.smallest:
            return End.FOUND
        if size + _NO_CHANGE * now.spread < self._wanted.smallest:
            return End.NOT_REPRODUCED
        if count < _MOST_END_RUNS:
            return None
        return End.UNSURE_ENDS if size + now.spread >= self._wanted.smallest else End.NOT_REPRODUCED

    def _now(self) -> Posterior:
        return posterior(self._prior(), self._runs, self._noise)

    def _once(self, suspects: Suspects) -> int | None:
        """A neighbour of the step with one run at most: of that one nobody knows whether it lies off its like."""
        counts = Counter(run.place for run in self._runs)
        good = max(place for place in counts if place < suspects.first)
        return next((place for place in (good, suspects.last) if counts[place] < 2), None)

    def _next(self, now: Posterior) -> int | None:
        if self._since_an_end >= _END_AGAIN:
            counts = Counter(run.place for run in self._runs)
            return 0 if counts[0] <= counts[self._last] else self._last
        return next_place(now, self._skipped, self._bench.cost_s)

    def _measure(self, place: int) -> bool:
        run = self._bench.measure(place)
        if run is None:
            self._skipped.add(place)
            return False
        self._since_an_end = 0 if place in (0, self._last) else self._since_an_end + 1
        self._runs.append(run)
        return True

    def _is_late(self, place: int) -> bool:
        return self._clock() - self._began + self._bench.cost_s(place) > self._wanted.budget_s

    def _ended(self, end: End) -> Search:
        measured = {run.place for run in self._runs}
        now = self._now() if {0, self._last} <= measured else None
        sought = now is not None and end in (End.FOUND, End.RANGE, End.BLOCKED, End.SPENT)
        return Search(
            end=end,
            runs=now.steady if now is not None else tuple(self._runs),
            now=now,
            skipped=frozenset(self._skipped),
            suspects=likeliest(now, self._skipped) if sought and now is not None else None,
            seconds=self._clock() - self._began,
        )
