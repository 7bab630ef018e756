"""How far a machine's numbers can be trusted: false alarms of equal code, and the smallest change that would be told.

Both ask what `check` would: its noise (`machine_noise.py`, `rerun_noise.py`), its test and its threshold, from the
newest 100 commits. The movement that canaries show is not taken off.
"""

import bisect
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from warpwatch.dashboard.statistics.binomial import Share, counted_share
from warpwatch.dashboard.statistics.comparison import (
    UNKNOWN_BETWEEN_RUNS,
    Comparison,
    RunValue,
    compare,
    judge,
    sample_error,
    sample_scatter,
)
from warpwatch.dashboard.statistics.detectable import detectable_change
from warpwatch.dashboard.statistics.machine_noise import ENOUGH_ALONE, Peer, history_noise, machine_scale, peer
from warpwatch.dashboard.statistics.noise import Noise, NoiseSource, noise_scales
from warpwatch.dashboard.statistics.rerun_noise import Lent, RerunScatter, lent, moderated, rerun_scatter
from warpwatch.dashboard.store.machine_history import MachineHistory, SeriesRuns
from warpwatch.dashboard.store.queries.pairs import BESIDE_MS
from warpwatch.dashboard.store.records import Series
from warpwatch.dashboard.verdict import Verdict

RUNS = (1, 3, 5)  # a side, that a smallest change is told for
_SIMILAR = 4.0  # as in machine_noise: no peer beyond it is asked
_TOLD = {Verdict.REGRESSED, Verdict.IMPROVED}

_Place = tuple[str, str, str | None]  # environment, unit, noise family: what peers share


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


def trust(history: MachineHistory, *, threshold: float) -> Trust:
    """What the history of a machine says."""
    noises = _Noises(history)
    ours = [each for each in history.series if each.series.is_watched]
    family = max(len(ours), 1)
    return Trust(
        beside=_false_alarms(history.series, noises, threshold, beside=True),
        later=_false_alarms(history.series, noises, threshold, beside=False),
        detectable=tuple(
            sorted(
                (_detectable(each, noises, family, threshold) for each in ours), key=lambda one: -one.changes[0]
            )
        ),
        family=family,
        threshold=threshold,
    )  # fmt: skip


def _detectable(runs: SeriesRuns, noises: "_Noises", family: int, threshold: float) -> Detectable:
    """For runs beside each other on one card: their noise is what re-runs tell, else what the history does."""
    levels = noises.levels(runs)
    newest = _run_value(runs, -1)
    noise = noises.beside(runs)
    if noise is None:
        assumed, scatter = UNKNOWN_BETWEEN_RUNS, sample_scatter(newest)
        source = NoiseSource.SAMPLES if scatter > assumed else NoiseSource.ASSUMED
        noise = Noise(scale=max(assumed, scatter), source=source)
    inside = sample_error(newest)
    return Detectable(
        series=runs.series,
        level=float(np.median(levels)),
        noise=max(noise.scale, inside),
        source=noise.source if noise.scale >= inside else NoiseSource.SAMPLES,
        commits=len(levels),
        changes=tuple(
            detectable_change(noise, inside=inside, runs=number, family=family, threshold=threshold)
            for number in RUNS
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Two runs of equal code that follow each other on one card, by their places in the series."""

    runs: SeriesRuns
    first: int
    second: int
    is_beside: bool


def _false_alarms(
    every: Iterable[SeriesRuns], noises: "_Noises", threshold: float, *, beside: bool
) -> FalseAlarms | None:
    families: dict[tuple[int, int, int], list[tuple[_Pair, Comparison]]] = {}
    apart: list[float] = []
    for runs in every:
        for pair in noises.pairs(runs):
            if pair.is_beside is beside and (compared := _compared(pair, noises, threshold)) is not None:
                check = (int(runs.commit[pair.first]), int(runs.commit[pair.second]), int(runs.card[pair.second]))
                families.setdefault(check, []).append((pair, compared))
                apart.append(math.expm1(abs(math.log(runs.value[pair.second] / runs.value[pair.first]))))
    if not apart:
        return None
    told = Counter[tuple[int, int, int]]()
    for check, its in families.items():
        better = [pair.runs.series.metric.better for pair, _ in its]
        told[check] = sum(v in _TOLD for v in judge([c for _, c in its], better, threshold=threshold))
    return FalseAlarms(
        told=_share(sum(told.values()), len(apart)),
        families=_share(sum(count > 0 for count in told.values()), len(families)),
        beyond_threshold=_share(sum(each >= threshold for each in apart), len(apart)),
        apart=float(np.median(apart)),
        apart_most=float(np.quantile(apart, 0.95)),
    )


def _share(count: int, of: int) -> Share:
    share = counted_share(count, of)
    assert share is not None
    return share


def _compared(pair: _Pair, noises: "_Noises", threshold: float) -> Comparison | None:
    """One run against the other, by a noise that the two have no part in as re-runs."""
    return compare(
        [_run_value(pair.runs, pair.first)], [_run_value(pair.runs, pair.second)],
        history_noise=noises.history(pair.runs), rerun_noise=noises.reruns(pair.runs, without=pair),
        threshold=threshold, beside=pair.is_beside,
    )  # fmt: skip


def _run_value(runs: SeriesRuns, place: int) -> RunValue:
    value, spread, count = float(runs.value[place]), float(runs.spread[place]), int(runs.count[place])
    if math.isnan(spread):
        return RunValue(value=value)
    known = count if count > 0 else None
    return RunValue(value=value, q25=value - spread / 2, q75=value + spread / 2, sample_count=known)


class _Noises:
    """What check would take the noise of each series of a machine to be."""

    def __init__(self, history: MachineHistory) -> None:
        self._card = _usual_card(history.series)
        self._levels = {each.series.key: self._levels_of(each) for each in history.series}
        self._pairs = {each.series.key: _pairs(each) for each in history.series}
        self._scatter = {
            key: scatter
            for each in history.series
            if (scatter := rerun_scatter(_groups(self._pairs[key := each.series.key]))) is not None
        }
        self._long = _long_noises(self._levels)
        self._peers = self._peers_of(history.series)
        self._near: dict[_Place, list[tuple[str, RerunScatter]]] = {}
        for each in history.series:
            if each.series.key in self._scatter:
                self._near.setdefault(_place(each.series), []).append((each.series.key, self._scatter[each.series.key]))
        self._lent: dict[str, Lent | None] = {}
        self._told: dict[str, Noise | None] = {}

    def levels(self, runs: SeriesRuns) -> Sequence[float]:
        """Medians over the runs of each commit, of the card that measured most, or of all where that measured none."""
        return self._levels[runs.series.key]

    def pairs(self, runs: SeriesRuns) -> Sequence[_Pair]:
        """The A/A pairs of the series."""
        return self._pairs[runs.series.key]

    def beside(self, runs: SeriesRuns) -> Noise | None:
        """For runs beside each other on one card."""
        history, reruns = self.history(runs), self.reruns(runs)
        is_calmer = history is not None and reruns is not None and history.freedom is None
        if reruns is None or (is_calmer and history is not None and history.scale <= reruns.scale):
            return history
        return reruns

    def history(self, runs: SeriesRuns) -> Noise | None:
        """By the history of the series and, where that is short, of its machine."""
        key = runs.series.key
        if key in self._long:
            return Noise(scale=self._long[key], source=NoiseSource.HISTORY)
        if key not in self._told:
            levels = self._levels[key]
            self._told[key] = history_noise(levels, machine_scale(median(levels), self._alike(runs.series)))
        return self._told[key]

    def reruns(self, runs: SeriesRuns, without: _Pair | None = None) -> Noise | None:
        """By the series' own re-runs but for one pair, and by what those of its machine lend."""
        key = runs.series.key
        if key not in self._lent:
            others = [scatter for other, scatter in self._near.get(_place(runs.series), ()) if other != key]
            self._lent[key] = lent(median(self._levels[key]), others)
        own = self._scatter.get(key)
        if without is not None and without.is_beside:
            own = rerun_scatter(_groups([pair for pair in self._pairs[key] if pair is not without]))
        return moderated(own, self._lent[key])

    def _levels_of(self, runs: SeriesRuns) -> list[float]:
        on_card = (runs.card == self._card) | (runs.card == 0)
        chosen = on_card if on_card.any() else np.ones(len(runs.value), dtype=bool)
        commit, value = runs.commit[chosen], runs.value[chosen]
        starts = np.flatnonzero(np.diff(commit, prepend=-1))
        if len(starts) == len(value):
            return list(value.tolist())
        return [float(np.median(part)) for part in np.split(value, starts[1:])]

    def _peers_of(self, every: Iterable[SeriesRuns]) -> Mapping[_Place, tuple[list[float], list[tuple[str, Peer]]]]:
        """Every series as a peer, by what peers share, in the order of their levels."""
        told: dict[_Place, list[tuple[str, Peer]]] = {}
        short = {_place(each.series) for each in every if each.series.key not in self._long}
        for each in every:
            if _place(each.series) in short:
                one = peer(self._levels[each.series.key], is_control=not each.series.is_watched)
                told.setdefault(_place(each.series), []).append((each.series.key, one))
        ordered = {place: sorted(its, key=lambda pair: pair[1].level) for place, its in told.items()}
        return {place: ([one.level for _, one in its], its) for place, its in ordered.items()}

    def _alike(self, series: Series) -> list[Peer]:
        levels, its = self._peers[_place(series)]
        level = median(self._levels[series.key])
        first = bisect.bisect_left(levels, level / _SIMILAR * (1 - 1e-9))
        last = bisect.bisect_right(levels, level * _SIMILAR * (1 + 1e-9))
        return [one for key, one in its[first:last] if key != series.key]


def _place(series: Series) -> _Place:
    return series.environment, series.metric.unit, series.metric.noise_family


def _usual_card(every: Iterable[SeriesRuns]) -> int:
    counted: Counter[int] = Counter()
    for runs in every:
        counted.update(runs.card.tolist())
    known = [(count, card) for card, count in counted.items() if card]
    return max(known)[1] if known else 0


def _long_noises(levels: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The noise of the histories that are long enough to tell it, those of one length at once."""
    together: dict[int, list[str]] = {}
    for key, its in levels.items():
        if len(its) >= ENOUGH_ALONE:
            together.setdefault(len(its), []).append(key)
    found: dict[str, float] = {}
    for keys in together.values():
        scales = noise_scales(np.log(np.array([levels[key] for key in keys])))
        found.update(zip(keys, scales.tolist(), strict=True))
    return found


def _pairs(runs: SeriesRuns) -> list[_Pair]:
    """Runs of one commit, or of our code where it is equal, that follow each other in time on one card."""
    if len(runs.value) < 2:
        return []
    is_ours = runs.series.is_watched
    if (np.diff(np.sort(runs.commit)) > 0).all() and not (is_ours and runs.code):
        return []  # no commit twice, and no code known
    groups: dict[tuple[int | str, int], list[int]] = {}
    for place, (commit, card, at) in enumerate(
        zip(runs.commit.tolist(), runs.card.tolist(), runs.started_ms.tolist(), strict=True)
    ):
        if at >= 0:
            groups.setdefault((runs.code.get(commit, commit) if is_ours else commit, card), []).append(place)
    found = []
    for places in groups.values():
        places.sort(key=lambda place: (int(runs.started_ms[place]), place))
        for first, second in itertools.pairwise(places):
            apart_ms = int(runs.started_ms[second] - runs.started_ms[first])
            found.append(_Pair(runs=runs, first=first, second=second, is_beside=apart_ms <= BESIDE_MS))
    return found


def _groups(pairs: Sequence[_Pair]) -> list[tuple[float, ...]]:
    """The values of runs that lie beside each other: chains of pairs."""
    groups: list[list[int]] = []
    values = pairs[0].runs.value if pairs else None
    for pair in pairs:
        if not pair.is_beside:
            continue
        if groups and groups[-1][-1] == pair.first:
            groups[-1].append(pair.second)
        else:
            groups.append([pair.first, pair.second])
    return [tuple(float(values[place]) for place in group) for group in groups] if values is not None else []
