"""Changepoint detection: one method for exact quantities, one for short histories, one for the rest."""

import itertools
from collections.abc import Sequence
from statistics import median

from ..model.metric import Metric
from .changepoint import Changepoint, Detection, find_changes
from .comparison import RunValue, compare, sample_scatter
from .episodes import Episode
from .gpu_history import SessionChain, detect_across_gpus
from .machine_noise import ENOUGH_ALONE
from .noise import Noise
from .short_series import short_changepoints

# Raise with every change of the findings, here or in the classification (classify.py): stores are then analysed anew.
# tests/dashboard/test_analysis_version.py compares a digest.
ANALYSIS_VERSION = 5

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

    Runs of different GPUs are compared by the `chain` of their sessions alone (`gpu_history.py`). What it cannot tell,
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
        first=index,
        last=index,
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
                    first=index,
                    last=index,
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
