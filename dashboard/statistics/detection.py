"""Which changepoint rule a series gets: one for counted things, one for short histories, one for the rest."""

import itertools
from collections.abc import Sequence
from statistics import median

from ..model.metric import Metric
from .changepoint import Changepoint, Told, tell
from .comparison import RunValue, compare, sample_scatter
from .episodes import Episode
from .machine_noise import ENOUGH_ALONE
from .noise import Noise
from .short_series import short_changepoints

# Raised with every change of what is told of a history, here or in what judges it (classify.py): stores are then
# analysed anew. tests/dashboard/test_analysis_version.py holds the answers.
ANALYSIS_VERSION = 3

LONG_ENOUGH = 8  # commits from which the detector can judge
SMALLEST_CHANGE = 0.01

_SHORT_NOISE = 0.02  # between runs, assumed of a history too short to tell
_SHORT_P = 1e-4
_STEADY = 4  # values that show whether a counted quantity stands still
_STILL = 0.8  # of its neighbours are equal then
_COUNTED_CHANGE = 0.05  # smallest change of one whose steadiness is not yet known


def detect(
    commits: Sequence[Sequence[RunValue]], metric: Metric, machine_noise: float | None = None
) -> tuple[Changepoint, ...]:
    """The changepoints of a series given as runs by commit, in order; each commit has one run or more.

    Exact quantities (registers, launches) have no noise: every change is one, from the second commit on. So it is with
    other whole numbers (bytes) that hardly ever move. Times of up to 15 commits, where `machine_noise`
    (`machine_scale`) is known: `short_changepoints`. Else up to seven commits: neighbours are compared, and only large
    changes are told (from 11 % on, more if samples scatter). Else `changepoints` of the commits' medians.

    Runs of different physical cards are different machines: each card's history is looked at alone.
    """
    return tell_commits(commits, metric, machine_noise).changes


def tell_commits(commits: Sequence[Sequence[RunValue]], metric: Metric, machine_noise: float | None = None) -> Told:
    """What `detect` finds, and the episodes of histories that `changepoints` judges."""
    cards = {run.card for runs in commits for run in runs}
    if len(cards) > 1 and not metric.is_exact:
        return _card_by_card(commits, metric, machine_noise, sorted(cards, key=str))
    levels = [median(run.value for run in runs) for runs in commits]
    if _counted_threshold(levels, metric) is None and len(levels) < ENOUGH_ALONE:
        if machine_noise is not None and metric.is_time and min(levels, default=0) > 0:
            return Told(changes=short_changepoints(commits, machine_noise, smallest_change=SMALLEST_CHANGE))
        if len(levels) < LONG_ENOUGH:
            return Told(changes=_short(commits, levels))
    return tell_levels(levels, metric)


def tell_levels(levels: Sequence[float], metric: Metric) -> Told:
    """What a series shows that is long enough, or exact enough, that its levels tell all: one value a commit."""
    smallest = _counted_threshold(levels, metric)
    if smallest is None:
        return tell(levels, smallest_change=SMALLEST_CHANGE)
    return Told(
        changes=tuple(
            _exact_step(index, before, after)
            for index, (before, after) in enumerate(itertools.pairwise(levels), start=1)
            if abs(after - before) > smallest * abs(before)
        )
    )


def _card_by_card(
    commits: Sequence[Sequence[RunValue]], metric: Metric, machine_noise: float | None, cards: Sequence[str | None]
) -> Told:
    """What every card's commits show.

    A change lies after a card's last commit before it. Where those of two cards overlap and go the same way they are
    one, and the card that tells its place most closely tells it.
    """
    seen: list[tuple[int, Changepoint]] = []  # the card's last place before, and the change
    episodes: list[Episode] = []
    for card in cards:
        places = [place for place, runs in enumerate(commits) if any(run.card == card for run in runs)]
        mine = [[run for run in commits[place] if run.card == card] for place in places]
        told = tell_commits(mine, metric, machine_noise)
        seen += [(places[change.index - 1], change.among(places)) for change in told.changes]
        episodes += [each.among(places) for each in told.episodes]
    kept: list[tuple[int, Changepoint]] = []
    for before, change in sorted(seen, key=lambda one: one[1].index - one[0]):
        if not any(
            before < other.index and start < change.index and (change.magnitude > 0) == (other.magnitude > 0)
            for start, other in kept
        ):
            kept.append((before, change))
    return Told(
        changes=tuple(sorted((change for _, change in kept), key=lambda change: change.index)),
        episodes=tuple(sorted(episodes, key=lambda each: each.first)),
    )


def _counted_threshold(levels: Sequence[float], metric: Metric) -> float | None:
    """The smallest change to tell of a counted quantity; None for one that is measured."""
    if len(levels) < 2:
        return None
    if metric.is_exact:
        # A launch more is one more; of memory, where allocators round, what is told is worth telling.
        return SMALLEST_CHANGE if metric.is_judged and metric.unit == "bytes" else 0.0
    if metric.is_time or not all(float(level).is_integer() for level in levels):
        return None
    if len(levels) < _STEADY:
        return _COUNTED_CHANGE
    neighbours = len(levels) - 1
    equal = sum(a == b for a, b in itertools.pairwise(levels))
    return 0.0 if equal >= _STILL * neighbours or neighbours - equal <= 1 else None


def _exact_step(index: int, before: float, after: float) -> Changepoint:
    magnitude = after / before - 1 if before else float(after > 0) - float(after < 0)  # from zero: +100 %
    return Changepoint(
        index=index,
        first=index,
        last=index,
        before=before,
        after=after,
        magnitude=magnitude,
        low=magnitude,
        high=magnitude,
        p_value=0.0,
        chance=0.0,
        posterior=((index, 1.0),),
    )


def _short(commits: Sequence[Sequence[RunValue]], levels: Sequence[float]) -> tuple[Changepoint, ...]:
    found = []
    for index, (base, head) in enumerate(itertools.pairwise(commits), start=1):
        noise = max(_SHORT_NOISE, *(sample_scatter(run) for run in (*base, *head)))
        seen = compare(base, head, history_noise=Noise(scale=noise), threshold=SMALLEST_CHANGE)
        if seen is not None and seen.p_value < _SHORT_P:
            before, after = levels[index - 1], levels[index]
            found.append(
                Changepoint(
                    index=index,
                    first=index,
                    last=index,
                    before=before,
                    after=after,
                    magnitude=seen.change,
                    low=seen.ci_low,
                    high=seen.ci_high,
                    p_value=seen.p_value,
                    chance=min(seen.p_value * (len(levels) - 1), 1.0),
                    posterior=((index, 1.0),),
                )
            )
    return tuple(found)
