"""Noise of each series in a comparison: by re-runs, by its history, or by its machine."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from ..model.series import Series
from ..statistics.comparison import is_long_and_calmer
from ..statistics.machine_noise import ENOUGH_ALONE, Peer, Peers, history_noise, long_noises, peer
from ..statistics.noise import Noise
from ..statistics.session_noise import Lent, RerunScatter, lent, moderated, rerun_noise, rerun_scatter
from ..store.chunks import Floats
from ..store.column_records import MachineHistory, SeriesRuns
from ..store.queries.comparison_pairs import BESIDE_MS, Pair
from .machine_drift import raw_change

PooledNoise = Callable[[str], Mapping[str, float]]
"""By machine: the noise of one run of each series, from neighbouring sessions (`gpu_sessions.pooled_noise`)."""
_Place = tuple[str, str, str, str | None]  # machine, environment, unit, noise family: what peers share


class HistoryNoises:
    """The noise of one run of a series by its history and, where that is short, by those of its machine's others."""

    def __init__(
        self,
        found: Sequence[Pair],
        drift_of: Mapping[str, float] | None = None,
        rivals_share: Mapping[str, float] | None = None,
        pooled: PooledNoise | None = None,
    ) -> None:
        """With the machines' drifts, controls also tell by how they moved beside it, and baselines beside what they
        share. `pooled` is asked for the machines of series that neither history nor machine tells of.
        """
        self._pooled = pooled
        self._long = long_noises({pair.series.key: pair.levels for pair in found})
        peers: dict[_Place, dict[str, Peer]] = {}
        asking = {_place(p.series) for p in found if len(p.levels) < ENOUGH_ALONE and p.base.runs and p.head.runs}
        for pair in found:
            series = pair.series
            if not series.metric.is_time or _place(series) not in asking or not _is_positive(pair.levels):
                continue
            moved = math.nan
            if drift_of is not None and not series.is_watched and (change := raw_change(pair)) is not None:
                together = (rivals_share or {}) if series.is_baseline else drift_of
                drift = together.get(series.machine, 0.0) if series.metric.follows_machine else 0.0
                moved = math.log1p(change) - math.log1p(drift)
            own = peer(pair.levels.tolist(), is_control=not series.is_watched, span=pair.span, change=moved)
            peers.setdefault(_place(series), {})[series.key] = own
        self._peers = {place: Peers(of_place) for place, of_place in peers.items()}

    def of(self, pair: Pair) -> Noise | None:
        """None where neither tells."""
        if pair.series.key in self._long:
            return self._long[pair.series.key]
        levels, peers = pair.levels.tolist(), self._peers.get(_place(pair.series))
        machine = peers.scale(pair.series.key, median(levels)) if peers is not None and levels else None
        is_compared = pair.base.runs and pair.head.runs and pair.other_cards is None
        if machine is None and self._pooled is not None and pair.series.metric.is_time and is_compared:
            machine = self._pooled(pair.series.machine).get(pair.series.key)
        return history_noise(levels, machine, pair.span)


def rerun_noises(found: Sequence[Pair]) -> dict[str, Noise]:
    """What re-runs tell of each series in times, its own and those of its machine, by the key of the series."""
    told: dict[_Place, dict[str, RerunScatter]] = {}
    for pair in found:
        if pair.series.metric.is_time and (scatter := rerun_scatter(pair.reruns)) is not None:
            told.setdefault(_place(pair.series), {})[pair.series.key] = scatter
    noises = {}
    for pair in found:
        near = told.get(_place(pair.series), {})
        if not near or not _is_positive(pair.levels):
            continue
        others = [scatter for key, scatter in near.items() if key != pair.series.key]
        noise = rerun_noise(median(pair.levels.tolist()), near.get(pair.series.key), others)
        if noise is not None:
            noises[pair.series.key] = noise
    return noises


def _is_positive(levels: Floats) -> bool:
    """Whether there are some, and all have a logarithm."""
    return len(levels) > 0 and bool(levels.min() > 0)


def _place(series: Series) -> _Place:
    return series.machine, series.environment, series.metric.unit, series.metric.noise_family


# The noise that a check would use for each series of a machine, and its A/A pairs: runs of equal code.

Check = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EqualPair:
    """Two runs of equal code that follow each other on one card, by their places in the series."""

    runs: SeriesRuns
    first: int
    second: int
    is_beside: bool
    check: Check  # what would compare the two: both commits, the card, and which of several such pairs it is


class MachineNoises:
    """What check would take the noise of each series of a machine to be."""

    def __init__(self, history: MachineHistory, pooled: Mapping[str, float]) -> None:
        self._pooled = pooled
        self._card = _usual_card(history.series)
        self._levels = {each.series.key: self._levels_of(each) for each in history.series}
        self._pairs = {each.series.key: _pairs(each) for each in history.series}
        self._scatter = {
            key: scatter
            for each in history.series
            if (scatter := rerun_scatter(_groups(self._pairs[key := each.series.key]))) is not None
        }
        self._long = long_noises(self._levels)
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

    def pairs(self, runs: SeriesRuns) -> Sequence[EqualPair]:
        """The A/A pairs of the series."""
        return self._pairs[runs.series.key]

    def beside(self, runs: SeriesRuns) -> Noise | None:
        """For runs beside each other on one card."""
        history, reruns = self.history(runs), self.reruns(runs)
        return history if reruns is None or is_long_and_calmer(history, reruns) else reruns

    def history(self, runs: SeriesRuns) -> Noise | None:
        """By the history of the series and, where that is short, of its machine."""
        key = runs.series.key
        if key in self._long:
            return self._long[key]
        if key not in self._told:
            levels = self._levels[key]
            machine = self._peers[_place(runs.series)].scale(key, median(levels)) or self._pooled.get(key)
            self._told[key] = history_noise(levels, machine)
        return self._told[key]

    def reruns(self, runs: SeriesRuns, without: EqualPair | None = None) -> Noise | None:
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

    def _peers_of(self, every: Iterable[SeriesRuns]) -> Mapping[_Place, Peers[str]]:
        """The series of each place that has one with a short history."""
        short = {_place(each.series) for each in every if each.series.key not in self._long}
        peers: dict[_Place, dict[str, Peer]] = {place: {} for place in short}
        for each in every:
            if _place(each.series) in short:
                one = peer(self._levels[each.series.key], is_control=not each.series.is_watched)
                peers[_place(each.series)][each.series.key] = one
        return {place: Peers(of_place) for place, of_place in peers.items()}


def _usual_card(every: Iterable[SeriesRuns]) -> int:
    counted: Counter[int] = Counter()
    for runs in every:
        counted.update(runs.card.tolist())
    known = [(count, card) for card, count in counted.items() if card]
    return max(known)[1] if known else 0


def _pairs(runs: SeriesRuns) -> list[EqualPair]:
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
    found: list[EqualPair] = []
    seen = Counter[tuple[int, int, int]]()
    for places in groups.values():
        places.sort(key=lambda place: (int(runs.started_ms[place]), place))
        for first, second in itertools.pairwise(places):
            apart_ms = int(runs.started_ms[second] - runs.started_ms[first])
            ends = (int(runs.commit[first]), int(runs.commit[second]), int(runs.card[second]))
            found.append(
                EqualPair(
                    runs=runs, first=first, second=second, is_beside=apart_ms <= BESIDE_MS, check=(*ends, seen[ends])
                )
            )
            seen[ends] += 1
    return found


def _groups(pairs: Sequence[EqualPair]) -> list[tuple[float, ...]]:
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
