"""The loop of a bisect: each run is the one with the most expected information per second."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

import numpy as np

from .posterior import Posterior, posterior_of
from .run_likelihood import TAIL_DF, ExpectedNoise, Floats, Run

# The next commit maximizes the information between the next value and the culprit (Lindley, "On a measure of the
# information provided by an experiment", Ann. Math. Statist. 27:986, 1956) per second of building and measuring.
# Without noise and at equal cost that is binary search, as in git bisect; with noise it returns to commits near the
# likely culprit.

_POINTS, _MARGIN = 121, 5.0  # of the axis of values; in sigmas beyond the outermost levels
_EQUALLY_GOOD = 0.99  # share of the most information per second
_NEGLIGIBLE = 1e-3  # probability of a gap below which its commits are not measured


def next_commit(posterior: Posterior, skipped: Collection[int], cost_s: Callable[[int], float]) -> int | None:
    """Index of the commit to measure next, without the skipped ones; None if no run has information."""
    candidates: list[tuple[float, float, int]] = []  # nats per second, probability, index
    values = _Values(posterior)
    for gap in range(1, len(posterior.measured)):
        if posterior.gaps[gap] < _NEGLIGIBLE:
            continue
        low, high = int(posterior.measured[gap - 1]), int(posterior.measured[gap])
        own = posterior.probability[low:high]
        sums = np.cumsum(own) / own.sum()
        inner = [each for each in range(low + 1, high) if each not in skipped]
        shares = [float(sums[each - low - 1]) for each in inner]
        for each, share in zip((low, high, *inner), (0.0, 1.0, *shares), strict=True):
            suspected = float(posterior.probability[each - 1]) if each else 0.0
            candidates.append((values.information(gap, share) / cost_s(each), suspected, each))
    best = max((worth for worth, _, _ in candidates), default=0.0)
    if best <= 0:
        return None
    # Among commits with about equal information the most suspected one: its neighbours may change nothing relevant.
    return max((suspected, worth, index) for worth, suspected, index in candidates if worth >= _EQUALLY_GOOD * best)[2]


class _Values:
    """Predictive distributions of the next value, one per segmentation."""

    def __init__(self, posterior: Posterior) -> None:
        segmentations = posterior.segmentations
        margin = _MARGIN * posterior.sigma
        axis = np.linspace(
            float(segmentations.level.min()) - margin, float(segmentations.level.max()) + margin, _POINTS
        )
        spread = np.hypot(posterior.sigma, segmentations.spread)[..., None]
        away = (axis - segmentations.level[..., None]) / spread
        density = (1 + away**2 / TAIL_DF) ** (-(TAIL_DF + 1) / 2) / spread
        self._density = density / density.sum(axis=2, keepdims=True)  # segmentation x measured x axis
        self._segmentations = segmentations
        self._gaps = np.unique(segmentations.culprit)

    def information(self, gap: int, share: float) -> float:
        """Information in nats of a run in this gap, at a commit that has the gap's step with probability `share`."""
        before, after = self._density[:, gap - 1], self._density[:, gap]
        mixed = (1 - share) * before + share * after
        weight, culprit = self._segmentations.weight, self._segmentations.culprit
        in_gap = culprit == gap
        parts = [(weight[culprit == each], mixed[culprit == each]) for each in self._gaps if each != gap]
        parts += [(weight[in_gap] * (1 - share), before[in_gap]), (weight[in_gap] * share, after[in_gap])]
        whole = _entropy(weight @ mixed)
        return whole - sum(float(w.sum()) * _entropy(w @ d / w.sum()) for w, d in parts if w.sum() > 0)


def _entropy(probabilities: Floats) -> float:
    positive = probabilities[probabilities > 0]
    return -float(positive @ np.log(positive))


class Conclusion(StrEnum):
    """How a bisect ended."""

    FOUND = "found"
    RANGE = "range"  # one of several commits, of which only the last can be measured
    UNINFORMATIVE = "no informative run"
    NOT_REPRODUCED = "not reproduced"  # the ends do not differ on this machine
    INCONCLUSIVE_ENDS = "inconclusive ends"  # the ends are too noisy to compare
    END_FAILED = "end failed"  # an end cannot be built or measured
    BUDGET = "budget"  # the time budget is spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspects:
    """Neighbouring commits that no run can distinguish, and their joint posterior probability."""

    first: int
    last: int
    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The result of a bisect. `posterior` is None if an end could not be measured."""

    conclusion: Conclusion
    runs: tuple[Run, ...]  # in order of time, without the machine's drift
    skipped: frozenset[int]  # indices of unmeasurable commits
    posterior: Posterior | None
    suspects: Suspects | None  # the likeliest
    seconds: float


def likeliest(posterior: Posterior, skipped: Collection[int]) -> Suspects:
    """The likeliest commit, together with neighbours that only runs of skipped commits could exclude."""
    count = len(posterior.probability)
    probabilities = np.concatenate([[0.0], posterior.probability])
    best = Suspects(first=1, last=1, probability=-1.0)
    first = 1
    for index in range(1, count + 1):
        if index in skipped and index < count:
            continue  # no run can distinguish this commit from the next one
        probability = float(probabilities[first : index + 1].sum())
        if probability > best.probability:
            best = Suspects(first=first, last=index, probability=probability)
        first = index + 1
    return best


_SIGN_PROBABILITY = 0.998  # required of the sign of the change
_LEAST_END_RUNS, _MOST_END_RUNS = 2, 12  # of each end, before the search
_RUNS_PER_END = 4  # after so many runs an end is measured again, to estimate the drift
_EXCLUDED = 2.5  # standard errors: a change of the smallest size is excluded


class Bench(Protocol):
    """Measures commits."""

    def measure(self, index: int) -> Run | None:
        """One run of a commit; None if it cannot be built or measured."""

    def cost_s(self, index: int) -> float:
        """Expected seconds of a run, with its build if needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """When a search ends."""

    confidence: float = 0.99
    smallest: float = 0.01  # smallest log change of the ends to search for
    budget_s: float = 3600.0


def search(
    bench: Bench,
    prior: Callable[[], Floats],
    noise: ExpectedNoise,
    settings: SearchSettings,
    *,
    runs: Iterable[Run] = (),
    skipped: Iterable[int] = (),
    clock: Callable[[], float] = time.monotonic,
    progress: Callable[[Posterior, Suspects, int], None] = lambda posterior, suspects, runs: None,
) -> Search:
    """Finds the culprit among commits 1 to n, the length of the prior; commit 0 is the good end.

    `prior` is called before each run, as results may include hashes of compiled code. `runs` and `skipped` come from
    earlier calls. No run starts that would likely end after the budget, except the first two of each end. `progress`
    gets the posterior, the suspects and the number of runs before each run, once the ends differ.
    """
    return _Loop(bench, prior, noise, settings, list(runs), set(skipped), clock, progress).run()


class _Loop:
    def __init__(
        self,
        bench: Bench,
        prior: Callable[[], Floats],
        noise: ExpectedNoise,
        settings: SearchSettings,
        runs: list[Run],
        skipped: set[int],
        clock: Callable[[], float],
        progress: Callable[[Posterior, Suspects, int], None],
    ) -> None:
        self._bench, self._prior, self._noise, self._settings = bench, prior, noise, settings
        self._runs, self._skipped, self._clock, self._progress = runs, skipped, clock, progress
        self._last = len(prior())
        self._started = clock()
        self._since_end = 0

    def run(self) -> Search:
        conclusion = self._ends()
        while conclusion is None:
            posterior = self._posterior()
            suspects = likeliest(posterior, self._skipped)
            self._progress(posterior, suspects, len(self._runs))
            is_certain = suspects.probability >= self._settings.confidence
            index = self._unrepeated_neighbour(suspects) if is_certain else self._next(posterior)
            if index is None:
                conclusion = _final(suspects, is_certain)
            elif self._exceeds_budget(index):
                conclusion = Conclusion.BUDGET
            else:
                self._measure(index)
        return self._result(conclusion)

    def _ends(self) -> Conclusion | None:
        """Measures both ends until it is clear whether they differ; None if they do."""
        while True:
            counts = Counter(run.index for run in self._runs)
            counts_of_ends = (counts[0], counts[self._last])
            if min(counts_of_ends) >= _LEAST_END_RUNS:
                conclusion = self._do_ends_differ(min(counts_of_ends))
                if conclusion is not None:
                    return None if conclusion is Conclusion.FOUND else conclusion
            # A B B A: linear drift affects both equally.
            good, bad = counts_of_ends
            index = self._last if good > bad or (good == bad and good % 2 == 1) else 0
            if min(counts_of_ends) >= _LEAST_END_RUNS and self._exceeds_budget(index):
                return Conclusion.BUDGET
            if not self._measure(index):
                return Conclusion.END_FAILED

    def _do_ends_differ(self, count: int) -> Conclusion | None:
        """FOUND if the ends differ, NOT_REPRODUCED, INCONCLUSIVE_ENDS; None if more runs are needed."""
        ends = [run for run in self._runs if run.index in (0, self._last)]
        posterior = posterior_of(np.ones(1), [replace(run, index=int(run.index > 0)) for run in ends], self._noise)
        size = abs(posterior.change)
        if posterior.sign_probability >= _SIGN_PROBABILITY and size >= self._settings.smallest:
            return Conclusion.FOUND
        if size + _EXCLUDED * posterior.spread < self._settings.smallest:
            return Conclusion.NOT_REPRODUCED
        if count < _MOST_END_RUNS:
            return None
        return (
            Conclusion.INCONCLUSIVE_ENDS
            if size + posterior.spread >= self._settings.smallest
            else Conclusion.NOT_REPRODUCED
        )

    def _posterior(self) -> Posterior:
        return posterior_of(self._prior(), self._runs, self._noise)

    def _unrepeated_neighbour(self, suspects: Suspects) -> int | None:
        """A neighbour of the step with at most one run, which may be an outlier."""
        counts = Counter(run.index for run in self._runs)
        good = max(index for index in counts if index < suspects.first)
        return next((index for index in (good, suspects.last) if counts[index] < 2), None)

    def _next(self, posterior: Posterior) -> int | None:
        if self._since_end >= _RUNS_PER_END:
            counts = Counter(run.index for run in self._runs)
            return 0 if counts[0] <= counts[self._last] else self._last
        return next_commit(posterior, self._skipped, self._bench.cost_s)

    def _measure(self, index: int) -> bool:
        run = self._bench.measure(index)
        if run is None:
            self._skipped.add(index)
            return False
        self._since_end = 0 if index in (0, self._last) else self._since_end + 1
        self._runs.append(run)
        return True

    def _exceeds_budget(self, index: int) -> bool:
        return self._clock() - self._started + self._bench.cost_s(index) > self._settings.budget_s

    def _result(self, conclusion: Conclusion) -> Search:
        measured = {run.index for run in self._runs}
        posterior = self._posterior() if {0, self._last} <= measured else None
        ends_differ = conclusion not in (
            Conclusion.NOT_REPRODUCED,
            Conclusion.INCONCLUSIVE_ENDS,
            Conclusion.END_FAILED,
        )
        return Search(
            conclusion=conclusion,
            runs=posterior.runs_without_drift if posterior is not None else tuple(self._runs),
            posterior=posterior,
            skipped=frozenset(self._skipped),
            suspects=likeliest(posterior, self._skipped) if ends_differ and posterior is not None else None,
            seconds=self._clock() - self._started,
        )


def _final(suspects: Suspects, is_certain: bool) -> Conclusion:
    """The conclusion if there is no commit left to measure."""
    if not is_certain:
        return Conclusion.UNINFORMATIVE
    return Conclusion.FOUND if suspects.first == suspects.last else Conclusion.RANGE
