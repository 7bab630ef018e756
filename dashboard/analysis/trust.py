"""Trust in a machine: false alarms of A/A pairs, and the smallest detectable change."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..model.comparison import Estimate
from ..model.quantities import relative_change
from ..model.series import Series
from ..model.thresholds import Limits, LimitsOf
from ..model.verdict import CHANGED, NoiseSource
from ..statistics.comparison import (
    UNKNOWN_BETWEEN_RUNS,
    RunValue,
    compare,
    family_verdicts,
    sample_error,
    sample_scatter,
)
from ..statistics.distributions import Share, counted_share
from ..statistics.noise import Noise
from ..statistics.power import detectable_change
from ..store.column_records import MachineHistory, SeriesRuns
from .noise import Check, EqualPair, MachineNoises

ENOUGH_PAIRS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualCodeSpread:
    """Absolute relative differences within A/A pairs."""

    pairs: int
    median: float
    most: float  # 95th percentile


def equal_code_spread(pairs: Sequence[tuple[float, float]]) -> EqualCodeSpread | None:
    """The spread of pairs of positive values; None for fewer than ENOUGH_PAIRS."""
    if len(pairs) < ENOUGH_PAIRS:
        return None
    apart = [math.expm1(abs(math.log(second / first))) for first, second in pairs]
    return EqualCodeSpread(pairs=len(pairs), median=float(np.median(apart)), most=float(np.quantile(apart, 0.95)))


# Both use the noise (`machine_noise.py`, `session_noise.py`), test and threshold of `check`, on the newest 100 commits.
# The drift of canaries is not subtracted.

RUNS = (1, 3, 5)  # of each commit, for the smallest detectable change


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseAlarms:
    """False alarms of A/A pairs, compared as a check with one run of each commit."""

    alarms: Share  # comparisons with REGRESSED or IMPROVED
    families: Share  # checks with any
    beyond_threshold: Share  # comparisons that differ by the threshold or more
    apart: float  # median relative difference of a pair
    apart_most: float  # 95th percentile


@dataclass(frozen=True, slots=True, kw_only=True)
class Detectable:
    """Smallest detectable change of a series, by the number of runs of each commit (`RUNS`)."""

    series: Series
    level: float
    noise: float  # of one run, relative
    source: NoiseSource
    commits: int  # with a number, on the GPU with most runs
    changes: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Trust in a machine's numbers, from its own history."""

    same_session: FalseAlarms | None  # as a gate measures
    later_sessions: FalseAlarms | None  # further apart
    detectable: tuple[Detectable, ...]  # of the project's own series, the largest first
    family: int  # number of series compared at once
    threshold: float


def trust(
    history: MachineHistory,
    *,
    threshold: float,
    limits: LimitsOf | None = None,
    pooled: Mapping[str, float] | None = None,
) -> Trust:
    """Trust from the history of a machine.

    `limits`: thresholds of each series; without it `threshold` is for all. `pooled`: noise of series without a history
    (`gpu_sessions.pooled_noise`).
    """
    noises = MachineNoises(history, pooled or {})
    uniform = Limits(threshold=threshold)
    limit_of = limits or (lambda series: uniform)
    family = max(sum(runs.series.is_ours for runs in history.series), 1)
    return Trust(
        same_session=_false_alarms(history.series, noises, limit_of, same_session=True),
        later_sessions=_false_alarms(history.series, noises, limit_of, same_session=False),
        detectable=_all_detectable(history, noises, limit_of, family),
        family=family,
        threshold=threshold,
    )


def detectable_changes(
    history: MachineHistory, *, limits: LimitsOf, pooled: Mapping[str, float], family: int
) -> tuple[Detectable, ...]:
    """`Trust.detectable` of a sample of the history, for a family of that many series."""
    return _all_detectable(history, MachineNoises(history, pooled), limits, family)


def _all_detectable(
    history: MachineHistory, noises: MachineNoises, limit_of: LimitsOf, family: int
) -> tuple[Detectable, ...]:
    ours = [runs for runs in history.series if runs.series.is_ours]
    rows = (_detectable(runs, noises, family, limit_of(runs.series)) for runs in ours)
    return tuple(sorted(rows, key=lambda detectable: -detectable.changes[0]))


def _detectable(runs: SeriesRuns, noises: MachineNoises, family: int, limit: Limits) -> Detectable:
    """Smallest detectable change between runs of one session."""
    levels = noises.levels(runs)
    newest = _run_value(runs, -1)
    noise = noises.same_session(runs)
    if noise is None:
        assumed, scatter = UNKNOWN_BETWEEN_RUNS, sample_scatter(newest)
        source = NoiseSource.SAMPLES if scatter > assumed else NoiseSource.ASSUMED
        noise = Noise(scale=max(assumed, scatter), source=source)
    inside = sample_error(newest)
    level = float(np.median(levels))
    threshold = limit.min_relative_change(level, level)
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
    series: Iterable[SeriesRuns], noises: MachineNoises, limit_of: LimitsOf, *, same_session: bool
) -> FalseAlarms | None:
    families: dict[Check, list[tuple[EqualPair, Estimate, float]]] = {}
    apart: list[tuple[float, float]] = []  # a pair's difference, and the threshold of its series
    for runs in series:
        limit = limit_of(runs.series)
        for pair in noises.pairs(runs):
            first, second = float(runs.value[pair.first]), float(runs.value[pair.second])
            threshold = limit.min_relative_change(first, second)
            if pair.is_same_session is same_session and (compared := _compared(pair, noises, threshold)) is not None:
                families.setdefault(pair.check, []).append((pair, compared, threshold))
                apart.append((relative_change(abs(math.log(second / first))), threshold))
    if not apart:
        return None
    alarms = Counter[Check]()
    for check, compared_pairs in families.items():
        better = [pair.runs.series.metric.better for pair, _, _ in compared_pairs]
        thresholds = [threshold for _, _, threshold in compared_pairs]
        verdicts = family_verdicts([estimate for _, estimate, _ in compared_pairs], better, threshold=thresholds)
        alarms[check] = sum(verdict in CHANGED for verdict in verdicts)
    distances = [distance for distance, _ in apart]
    return FalseAlarms(
        alarms=_share(sum(alarms.values()), len(apart)),
        families=_share(sum(count > 0 for count in alarms.values()), len(families)),
        beyond_threshold=_share(sum(distance >= threshold for distance, threshold in apart), len(apart)),
        apart=float(np.median(distances)),
        apart_most=float(np.quantile(distances, 0.95)),
    )


def _share(count: int, of: int) -> Share:
    share = counted_share(count, of)
    assert share is not None
    return share


def _compared(pair: EqualPair, noises: MachineNoises, threshold: float) -> Estimate | None:
    """Estimate between the two runs; the pair itself is left out of the re-runs."""
    return compare(
        [_run_value(pair.runs, pair.first)],
        [_run_value(pair.runs, pair.second)],
        history_noise=noises.history(pair.runs),
        rerun_noise=noises.reruns(pair.runs, without=pair),
        threshold=threshold,
        same_session=pair.is_same_session,
    )


def _run_value(runs: SeriesRuns, index: int) -> RunValue:
    value, spread, count = float(runs.value[index]), float(runs.spread[index]), int(runs.count[index])
    if math.isnan(spread):
        return RunValue(value=value)
    known = count if count > 0 else None
    return RunValue(value=value, q25=value - spread / 2, q75=value + spread / 2, sample_count=known)
