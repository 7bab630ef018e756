"""Trust in a machine: false alarms of equal code, and the smallest change that would be detected."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..model.comparison import Estimate
from ..model.quantities import growth
from ..model.series import Series
from ..model.thresholds import Limits, LimitsOf
from ..model.verdict import NoiseSource, Verdict
from ..statistics.comparison import (
    UNKNOWN_BETWEEN_RUNS,
    RunValue,
    compare,
    judge,
    sample_error,
    sample_scatter,
)
from ..statistics.distributions import Share, counted_share
from ..statistics.noise import Noise
from ..statistics.power import detectable_change
from ..store.column_records import MachineHistory, SeriesRuns
from .noise import Check, EqualPair, MachineNoises

# How far two measurements of the same machine code lie apart: the noise that no change of a kernel is in.

ENOUGH_PAIRS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualCodeSpread:
    """Relative differences within pairs, whichever way they go."""

    pairs: int
    median: float
    most: float  # 95 % of the pairs lie no further apart


def equal_code_spread(pairs: Sequence[tuple[float, float]]) -> EqualCodeSpread | None:
    """The spread of pairs of positive values; None for fewer than ENOUGH_PAIRS."""
    if len(pairs) < ENOUGH_PAIRS:
        return None
    apart = [math.expm1(abs(math.log(second / first))) for first, second in pairs]
    return EqualCodeSpread(pairs=len(pairs), median=float(np.median(apart)), most=float(np.quantile(apart, 0.95)))


# How far a machine's numbers can be trusted: false alarms of equal code, and the smallest change that would be told.
#
# Both ask what `check` would: its noise (`machine_noise.py`, `session_noise.py`), its test and its threshold, from
# the newest 100 commits. The movement that canaries show is not taken off.

RUNS = (1, 3, 5)  # a side, that a smallest change is told for
_TOLD = {Verdict.REGRESSED, Verdict.IMPROVED}


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseAlarms:
    """Pairs of runs of equal code, compared as a check of one run a side would."""

    told: Share  # called changed, of all comparisons
    families: Share  # checks with any such call, of all checks
    beyond_threshold: Share  # comparisons that lie at least the threshold apart: what a bare threshold would call
    apart: float  # typical distance of a pair, relative
    apart_most: float  # 95 % of the pairs lie no further apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Detectable:
    """The smallest change of a series that a check would tell, by the number of runs of each commit (`RUNS`)."""

    series: Series
    level: float
    noise: float  # of one run, relative
    source: NoiseSource
    commits: int  # with a number, on the card that measured most
    changes: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """What a machine's own history says of its numbers."""

    beside: FalseAlarms | None  # within two hours on one card, as a gate measures
    later: FalseAlarms | None  # further apart
    detectable: tuple[Detectable, ...]  # of the project's own series; the largest with one run first
    family: int  # series that the smallest changes are told among
    threshold: float


def trust(
    history: MachineHistory,
    *,
    threshold: float,
    limits: LimitsOf | None = None,
    pooled: Mapping[str, float] | None = None,
) -> Trust:
    """What the history of a machine says.

    `limits` gives each series' own threshold, as `check` takes it; without it `threshold` is that of all. `pooled` is
    the noise of series that neither history nor machine tells of (`gpu_sessions.pooled_noise`).
    """
    noises = MachineNoises(history, pooled or {})
    alike = Limits(threshold=threshold)
    limit_of = limits or (lambda series: alike)
    ours = [each for each in history.series if each.series.is_watched]
    family = max(len(ours), 1)
    return Trust(
        beside=_false_alarms(history.series, noises, limit_of, beside=True),
        later=_false_alarms(history.series, noises, limit_of, beside=False),
        detectable=tuple(
            sorted(
                (_detectable(each, noises, family, limit_of(each.series)) for each in ours),
                key=lambda one: -one.changes[0],
            )
        ),
        family=family,
        threshold=threshold,
    )


def _detectable(runs: SeriesRuns, noises: MachineNoises, family: int, limit: Limits) -> Detectable:
    """For runs beside each other on one card: their noise is what re-runs tell, else what the history does."""
    levels = noises.levels(runs)
    newest = _run_value(runs, -1)
    noise = noises.beside(runs)
    if noise is None:
        assumed, scatter = UNKNOWN_BETWEEN_RUNS, sample_scatter(newest)
        source = NoiseSource.SAMPLES if scatter > assumed else NoiseSource.ASSUMED
        noise = Noise(scale=max(assumed, scatter), source=source)
    inside = sample_error(newest)
    level = float(np.median(levels))
    threshold = limit.counts_from(level, level)
    return Detectable(
        series=runs.series,
        level=level,
        noise=max(noise.scale, inside),
        source=noise.source if noise.scale >= inside else NoiseSource.SAMPLES,
        commits=len(levels),
        changes=tuple(
            detectable_change(noise, inside=inside, runs=number, family=family, threshold=threshold) for number in RUNS
        ),
    )


def _false_alarms(
    every: Iterable[SeriesRuns], noises: MachineNoises, limit_of: LimitsOf, *, beside: bool
) -> FalseAlarms | None:
    families: dict[Check, list[tuple[EqualPair, Estimate, float]]] = {}
    apart: list[tuple[float, float]] = []  # a pair's distance, and the threshold of its series
    for runs in every:
        limit = limit_of(runs.series)
        for pair in noises.pairs(runs):
            first, second = float(runs.value[pair.first]), float(runs.value[pair.second])
            threshold = limit.counts_from(first, second)
            if pair.is_beside is beside and (compared := _compared(pair, noises, threshold)) is not None:
                families.setdefault(pair.check, []).append((pair, compared, threshold))
                apart.append((growth(abs(math.log(second / first))), threshold))
    if not apart:
        return None
    told = Counter[Check]()
    for check, its in families.items():
        better = [pair.runs.series.metric.better for pair, _, _ in its]
        thresholds = [threshold for _, _, threshold in its]
        told[check] = sum(v in _TOLD for v in judge([c for _, c, _ in its], better, threshold=thresholds))
    distances = [distance for distance, _ in apart]
    return FalseAlarms(
        told=_share(sum(told.values()), len(apart)),
        families=_share(sum(count > 0 for count in told.values()), len(families)),
        beyond_threshold=_share(sum(distance >= threshold for distance, threshold in apart), len(apart)),
        apart=float(np.median(distances)),
        apart_most=float(np.quantile(distances, 0.95)),
    )


def _share(count: int, of: int) -> Share:
    share = counted_share(count, of)
    assert share is not None
    return share


def _compared(pair: EqualPair, noises: MachineNoises, threshold: float) -> Estimate | None:
    """One run against the other, by a noise that the two have no part in as re-runs."""
    return compare(
        [_run_value(pair.runs, pair.first)],
        [_run_value(pair.runs, pair.second)],
        history_noise=noises.history(pair.runs),
        rerun_noise=noises.reruns(pair.runs, without=pair),
        threshold=threshold,
        beside=pair.is_beside,
    )


def _run_value(runs: SeriesRuns, place: int) -> RunValue:
    value, spread, count = float(runs.value[place]), float(runs.spread[place]), int(runs.count[place])
    if math.isnan(spread):
        return RunValue(value=value)
    known = count if count > 0 else None
    return RunValue(value=value, q25=value - spread / 2, q75=value + spread / 2, sample_count=known)
