"""Changepoint detection: one method for exact quantities, one for short histories, one for the rest.

Short histories, on a machine whose noise is known from its other series: binary segmentation. The split with the least
sum of absolute deviations from the medians of both sides is tested, with the difference at the split left out of the
noise; then both sides are split in the same way. Steps that measuring base and head again in turns has confirmed are
added to those of a history.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from ..model.comparison import Estimate
from ..model.metric import Metric
from ..model.quantities import relative_change
from .changepoint import Changepoint, Detection, find_changes
from .comparison import SMALLEST_NOISE, RunValue, compare, sample_error, sample_scatter
from .distributions import MEDIAN_ERROR, critical_value, t_p_value
from .episodes import Episode
from .gpu_history import SessionChain, detect_across_gpus
from .level_path import Ints
from .machine_noise import ENOUGH_ALONE, history_noise
from .noise import Noise

# Raise with every change of the findings, here or in the classification (classify.py): stores are then analysed anew.
# tests/dashboard/test_analysis_version.py compares a digest.
ANALYSIS_VERSION = 6

LONG_ENOUGH = 8  # commits, for the segmentation
SMALLEST_CHANGE = 0.01
# Of a step, in standard deviations of single values around its levels: Cohen's medium effect, "likely to be visible to
# the naked eye of a careful observer" (A Power Primer, Psychological Bulletin 112:155, 1992).
SMALLEST_EFFECT = 0.5

_SHORT_NOISE = 0.02  # assumed between runs of a short history
_SHORT_P = 1e-4
_OWN_LEVEL = 3  # commits of one GPU on either side of a change, which then needs no other GPU's
_STEADY = 4  # values, to see whether a quantity is constant apart from steps
_STILL = 0.8  # share of equal neighbours of such a quantity
_COUNTED_CHANGE = 0.05  # smallest change of a quantity with fewer values


def detect(
    commits: Sequence[Sequence[RunValue]],
    metric: Metric,
    machine_noise: float | None = None,
    chain: SessionChain | None = None,
) -> Detection:
    """Changes and episodes of a series given as runs by commit, in order; each commit has one run or more.

    Exact quantities (registers, launches) have no noise: every difference is a change, from the second commit on; so
    for other whole numbers (bytes) that hardly ever change. Times of up to 15 commits with a `machine_noise`
    (`Peers.scale`): `short_changepoints`. Others of up to seven commits: neighbours are compared, and only large
    changes are found (11 % or more if samples scatter little). All others: `find_changes` on the commits' medians.

    Runs of different GPUs are compared by the `chain` of their sessions alone (`gpu_history.py`). What it leaves open,
    across its breaks and from a GPU's own long history, is found in each GPU's commits.
    """
    gpus = {run.gpu for runs in commits for run in runs}
    if len(gpus) > 1 and not metric.is_exact:
        return _by_gpu(commits, metric, machine_noise, sorted(gpus, key=str), chain)
    levels = [median(run.value for run in runs) for runs in commits]
    if _counted_threshold(levels, metric) is None and len(levels) < ENOUGH_ALONE:
        if machine_noise is not None and metric.is_time and min(levels, default=0) > 0:
            return Detection(changes=short_changepoints(commits, machine_noise, smallest_change=SMALLEST_CHANGE))
        if len(levels) < LONG_ENOUGH:
            return Detection(changes=_short(commits, levels))
    return detect_in_levels(levels, metric)


def detect_in_levels(levels: Sequence[float], metric: Metric) -> Detection:
    """`detect` for a long or exact series, from the median of each commit."""
    smallest = _counted_threshold(levels, metric)
    if smallest is None:
        return find_changes(levels, smallest_change=SMALLEST_CHANGE, smallest_effect=SMALLEST_EFFECT)
    return Detection(
        changes=tuple(
            _exact_step(index, before, after)
            for index, (before, after) in enumerate(itertools.pairwise(levels), start=1)
            if abs(after - before) > smallest * abs(before)
        )
    )


def _by_gpu(
    commits: Sequence[Sequence[RunValue]],
    metric: Metric,
    machine_noise: float | None,
    gpus: Sequence[str | None],
    chain: SessionChain | None,
) -> Detection:
    """The findings of the GPU-adjusted history and of every GPU's commits.

    A change lies after the GPU's previous commit. Changes in the same direction whose ranges overlap are one, taken
    from where the range is narrowest; of equal ranges, from a GPU of which the p-value is smaller.
    """
    changes: list[tuple[int, Changepoint]] = []  # with the index of the GPU's commit before
    elsewhere: list[tuple[int, Changepoint]] = []
    episodes: list[Episode] = []
    breaks = list(range(1, len(commits)))
    if chain is not None:
        adjusted = detect_across_gpus(chain, smallest_change=SMALLEST_CHANGE, smallest_effect=SMALLEST_EFFECT)
        breaks = chain.broken_commits
        elsewhere += [(change.first - 1, change) for change in adjusted.changes]
        episodes += adjusted.episodes
        machine_noise = machine_noise if machine_noise is not None else chain.noise
    for gpu in gpus:
        indices = [index for index, runs in enumerate(commits) if any(run.gpu == gpu for run in runs)]
        is_long = chain is None or len(indices) >= ENOUGH_ALONE
        own = [[run for run in commits[index] if run.gpu == gpu] for index in indices]
        detection = detect(own, metric, machine_noise)
        for change in detection.changes:
            before, moved = indices[change.index - 1], change.among(indices)
            is_better = any(
                before + 1 == moved.index == other.index
                and (other.magnitude > 0) == (moved.magnitude > 0)
                and moved.p_adjusted <= other.p_adjusted
                for _, other in elsewhere
            )
            is_sure = min(change.index, len(indices) - change.index) >= _OWN_LEVEL
            if is_long or is_better or is_sure:
                changes.append((before, moved))
            elif any(before < each <= moved.index for each in breaks):
                elsewhere.append((before, moved))
        episodes += [episode.among(indices) for episode in detection.episodes if is_long]
    distinct: list[tuple[int, Changepoint]] = []
    for before, change in sorted(changes + elsewhere, key=lambda pair: pair[1].index - pair[0]):
        if not any(
            before < other.index and start < change.index and (change.magnitude > 0) == (other.magnitude > 0)
            for start, other in distinct
        ):
            distinct.append((before, change))
    return Detection(
        changes=tuple(sorted((change for _, change in distinct), key=lambda change: change.index)),
        episodes=_once(episodes),
    )


def _once(episodes: Sequence[Episode]) -> tuple[Episode, ...]:
    """One episode of a kind at a commit, in order."""
    first: dict[tuple[int, str], Episode] = {}
    for each in episodes:
        first.setdefault((each.first, each.kind.value), each)
    return tuple(first[key] for key in sorted(first))


def _counted_threshold(levels: Sequence[float], metric: Metric) -> float | None:
    """The smallest relative change of a counted quantity; None for a measured one."""
    if len(levels) < 2:
        return None
    if metric.is_exact:
        # Every launch counts; allocators round, so tiny differences of memory do not.
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
        before=before,
        after=after,
        magnitude=magnitude,
        ci_low=magnitude,
        ci_high=magnitude,
        p_value=0.0,
        p_adjusted=0.0,
        posterior=((index, 1.0),),
    )


def _short(commits: Sequence[Sequence[RunValue]], levels: Sequence[float]) -> tuple[Changepoint, ...]:
    changes = []
    for index, (base, head) in enumerate(itertools.pairwise(commits), start=1):
        noise = max(_SHORT_NOISE, *(sample_scatter(run) for run in (*base, *head)))
        estimate = compare(base, head, history_noise=Noise(scale=noise), threshold=SMALLEST_CHANGE)
        if estimate is not None and estimate.p_value < _SHORT_P:
            before, after = levels[index - 1], levels[index]
            changes.append(
                Changepoint(
                    index=index,
                    before=before,
                    after=after,
                    magnitude=estimate.change,
                    ci_low=estimate.ci_low,
                    ci_high=estimate.ci_high,
                    p_value=estimate.p_value,
                    p_adjusted=min(estimate.p_value * (len(levels) - 1), 1.0),
                    posterior=((index, 1.0),),
                )
            )
    return tuple(changes)


_P = 1e-4


def short_changepoints(
    commits: Sequence[Sequence[RunValue]], machine: float, *, smallest_change: float
) -> tuple[Changepoint, ...]:
    """Changepoints of a history of positive values, given as runs by commit.

    `machine`: relative scatter between runs of the machine's series of similar latency (`Peers.scale`). A level needs
    two commits, at either end of the history one.
    """
    levels = [median(run.value for run in runs) for runs in commits]
    edges = _edges(commits, levels, machine, smallest_change, 0, len(levels))
    changes = []
    for start, middle, end in zip([0, *edges], edges, [*edges[1:], len(levels)], strict=False):
        change = _tested(commits, levels, machine, start, middle, end)
        if change is not None and abs(change.magnitude) >= smallest_change:
            changes.append(change)
    return tuple(changes)


def _edges(
    commits: Sequence[Sequence[RunValue]],
    levels: Sequence[float],
    machine: float,
    smallest: float,
    start: int,
    end: int,
) -> list[int]:
    """Positions between `start` and `end` at which the history splits, in order."""
    candidates = [
        index
        for index in range(start + 1, end)
        if (index - start > 1 or start == 0) and (end - index > 1 or end == len(levels))
    ]
    if not candidates:
        return []
    split = min(candidates, key=lambda index: _deviation(levels[start:index]) + _deviation(levels[index:end]))
    change = _tested(commits, levels, machine, start, split, end)
    if change is None or abs(change.magnitude) < smallest:
        return []
    left, right = ((start, split), (split, end))
    return [
        *_edges(commits, levels, machine, smallest, *left),
        split,
        *_edges(commits, levels, machine, smallest, *right),
    ]


def _deviation(levels: Sequence[float]) -> float:
    logs = [math.log(level) for level in levels]
    middle = median(logs)
    return sum(abs(x - middle) for x in logs)


def _tested(
    commits: Sequence[Sequence[RunValue]],
    levels: Sequence[float],
    machine: float,
    start: int,
    split: int,
    end: int,
) -> Changepoint | None:
    """The change at a split; None if it is not significant."""
    noise = history_noise(levels, machine, (split - 1, split))
    if noise is None or noise.df is None:  # with a machine's scale neither is None
        return None
    sizes = [split - start, end - split]
    before, after = median(levels[start:split]), median(levels[split:end])
    inside = max(sample_error(run) for runs in commits[start:end] for run in runs)
    inefficiency = MEDIAN_ERROR if max(sizes) > 2 else 1.0
    error = max(noise.scale, inside, SMALLEST_NOISE) * inefficiency * math.sqrt(sum(1 / size for size in sizes))
    shift = math.log(after / before)
    p = t_p_value(abs(shift) / error, noise.df)
    if p >= _P:
        return None
    half = critical_value(0.05, noise.df) * error
    return Changepoint(
        index=split,
        before=before,
        after=after,
        magnitude=relative_change(shift),
        ci_low=relative_change(shift - half),
        ci_high=relative_change(shift + half),
        p_value=p,
        p_adjusted=min(p * (len(levels) - 1), 1.0),
        posterior=((split, 1.0),),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedStep:
    """A significant difference of the further runs of two commits."""

    base: int  # ids of the commits
    head: int
    before: float
    after: float
    estimate: Estimate
    p_adjusted: float  # by Holm, among the series that were measured again


def with_confirmed(detection: Detection, steps: Sequence[ConfirmedStep], commits: Ints) -> Detection:
    """The findings with the confirmed steps; `commits` has the id of each value's commit.

    A changepoint in the same direction whose range contains the confirmed commit is the same change: the confirmed
    step, which has the narrower range, replaces it.
    """
    places = {int(commit): index for index, commit in enumerate(commits.tolist())}
    confirmed = [_changepoint(step, places) for step in steps if _is_in_order(step, places)]
    if not confirmed:
        return detection
    others = [change for change in detection.changes if not any(_is_same(change, each) for each in confirmed)]
    return replace(detection, changes=tuple(sorted([*others, *confirmed], key=lambda change: change.index)))


def _is_in_order(step: ConfirmedStep, places: Mapping[int, int]) -> bool:
    """Whether the history has both commits in this order, which another process may have changed meanwhile."""
    return step.base in places and step.head in places and places[step.base] < places[step.head]


def _is_same(change: Changepoint, confirmed: Changepoint) -> bool:
    is_alike = (change.magnitude > 0) == (confirmed.magnitude > 0)
    return change.index == confirmed.index or (is_alike and change.first <= confirmed.index <= change.last)


def _changepoint(step: ConfirmedStep, places: Mapping[int, int]) -> Changepoint:
    first, last = places[step.base] + 1, places[step.head]
    return Changepoint(
        index=last,
        before=step.before,
        after=step.after,
        magnitude=step.estimate.change,
        ci_low=step.estimate.ci_low,
        ci_high=step.estimate.ci_high,
        p_value=step.estimate.p_value,
        p_adjusted=step.p_adjusted,
        posterior=tuple((index, 1 / (last - first + 1)) for index in range(first, last + 1)),
        is_confirmed=True,
    )


def holm_p_values(p_values: Sequence[float]) -> tuple[float, ...]:
    """P-values adjusted for all of them (Holm, Scandinavian Journal of Statistics 6:65, 1979)."""
    values = np.asarray(p_values, dtype=float)
    order = np.argsort(values)
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)), 1.0)
    return tuple(adjusted.tolist())
