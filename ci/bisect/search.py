"""The bisect's loop: both ends first, then whichever run tells most, until it is sure or the budget is spent."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from warpwatch.ci.bisect.choice import next_place
from warpwatch.ci.bisect.posterior import Posterior, posterior
from warpwatch.ci.bisect.runs import ExpectedNoise, Floats, Run
from warpwatch.ci.bisect.state import End, Search, Suspects, likeliest

_SURE_ENDS = 0.998  # that the ends differ, and which way
_LEAST_END_RUNS, _MOST_END_RUNS = 2, 12  # of each end, before the search begins
_END_AGAIN = 4  # every so many runs one is an end's: they show the machine's way
_NO_CHANGE = 2.5  # standard errors within which a change of the wanted size would have shown


class Bench(Protocol):
    """What measures."""

    def measure(self, place: int) -> Run | None:
        """One run of the commit; None if it cannot be built or measured."""

    def cost_s(self, place: int) -> float:
        """About what that takes, building included where it is to be built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What would satisfy."""

    confidence: float = 0.99
    smallest: float = 0.01  # log change of the ends below which there is nothing to look for
    budget_s: float = 3600.0


def search(
    bench: Bench, prior: Callable[[], Floats], noise: ExpectedNoise, wanted: Wanted, *, runs: Iterable[Run] = (),
    skipped: Iterable[int] = (), clock: Callable[[], float] = time.monotonic,
    watch: Callable[[Posterior, Suspects, int], None] = lambda now, suspects, runs: None,
) -> Search:  # fmt: skip
    """Finds the culprit among places 1 to n, as many as `prior` gives weights; place 0 is the good end.

    The prior is asked for before each run: what was measured may tell of compiled code. `runs` and `skipped` are what
    an earlier call measured. No run begins that would likely end beyond the budget, but for the first two of each end.
    `watch` is told what is known before each run, and after how many, once the ends are known to differ.
    """
    return _Loop(bench, prior, noise, wanted, list(runs), set(skipped), clock, watch).run()


class _Loop:
    def __init__(
        self, bench: Bench, prior: Callable[[], Floats], noise: ExpectedNoise, wanted: Wanted, runs: list[Run],
        skipped: set[int], clock: Callable[[], float], watch: Callable[[Posterior, Suspects, int], None],
    ) -> None:  # fmt: skip
        self._bench, self._prior, self._noise, self._wanted = bench, prior, noise, wanted
        self._runs, self._skipped, self._clock, self._watch = runs, skipped, clock, watch
        self._last = len(prior())
        self._began = clock()
        self._since_an_end = 0

    def run(self) -> Search:
        """The whole search."""
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
        """Measures both until it is sure whether they differ; None if they do."""
        while True:
            counts = Counter(run.place for run in self._runs)
            here = [counts[0], counts[self._last]]
            if min(here) >= _LEAST_END_RUNS:
                told = self._do_ends_differ(min(here))
                if told is not None:
                    return None if told is End.FOUND else told
            # A B B A: what the machine does meanwhile falls on both alike.
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
            end=end, runs=now.steady if now is not None else tuple(self._runs), now=now,
            skipped=frozenset(self._skipped),
            suspects=likeliest(now, self._skipped) if sought and now is not None else None,
            seconds=self._clock() - self._began,
        )  # fmt: skip
