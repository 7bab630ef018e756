"""What `check` would take the noise of each series of a machine to be, and which of its runs measured equal code."""

import bisect
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from warpwatch.dashboard.statistics.machine_noise import Peer, history_noise, long_noises, machine_scale, peer
from warpwatch.dashboard.statistics.noise import Noise
from warpwatch.dashboard.statistics.rerun_noise import Lent, RerunScatter, lent, moderated, rerun_scatter
from warpwatch.dashboard.store.machine_history import MachineHistory, SeriesRuns
from warpwatch.dashboard.store.queries.pairs import BESIDE_MS
from warpwatch.dashboard.store.records import Series

_SIMILAR = 4.0  # as in machine_noise: no peer beyond it is asked

Check = tuple[int, int, int, int]
_Place = tuple[str, str, str | None]  # environment, unit, noise family: what peers share


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

    def __init__(self, history: MachineHistory) -> None:
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
        is_calmer = history is not None and reruns is not None and history.freedom is None
        if reruns is None or (is_calmer and history is not None and history.scale <= reruns.scale):
            return history
        return reruns

    def history(self, runs: SeriesRuns) -> Noise | None:
        """By the history of the series and, where that is short, of its machine."""
        key = runs.series.key
        if key in self._long:
            return self._long[key]
        if key not in self._told:
            levels = self._levels[key]
            self._told[key] = history_noise(levels, machine_scale(median(levels), self._alike(runs.series)))
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
