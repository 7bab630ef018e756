"""Noise of each series in a comparison, by re-runs, by its history, or by its machine; and drift of the machine.

Drift between two commits is that of the controls, work that no commit of the project changes. Canaries come first:
fixed kernels of the suite, visited several times a run. Baselines (SDPA, cuBLAS) come with libraries and count as long
as no canary contradicts them.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from ..model.comparison import CanaryChange, Estimate, MachineDrift
from ..model.series import Series
from ..statistics.comparison import common_drift, is_long_and_calmer, level
from ..statistics.machine_noise import ENOUGH_ALONE, Peer, Peers, history_noise, long_noises, peer
from ..statistics.noise import Noise
from ..statistics.session_noise import (
    RerunScatter,
    VariancePrior,
    VarianceTrend,
    moderated,
    rerun_noise,
    rerun_scatter,
    variance_prior,
)
from ..store.chunks import Floats
from ..store.column_records import MachineHistory, SeriesRuns
from ..store.queries.comparison_pairs import SESSION_GAP_MS, Pair

PooledNoise = Callable[[str], Mapping[str, float]]
"""By machine: the noise of one run of each series, from neighbouring sessions (`gpu_sessions.pooled_noise`)."""
_PeerGroup = tuple[str, str, str, str | None]  # machine, environment, unit, noise family


class HistoryNoises:
    """Noise of one run of each series, by its history or, if that is short, with the machine's other series."""

    def __init__(
        self,
        found: Sequence[Pair],
        drift_of: Mapping[str, float] | None = None,
        rivals_share: Mapping[str, float] | None = None,
        pooled: PooledNoise | None = None,
    ) -> None:
        """`drift_of`: drift by machine, to use the remaining change of controls; `rivals_share`: that of baselines.

        `pooled` gives the noise of series that have neither a history nor similar series on their machine.
        """
        self._pooled = pooled
        self._long = long_noises({pair.series.key: pair.levels for pair in found})
        peers: dict[_PeerGroup, dict[str, Peer]] = {}
        groups = {_peer_group(p.series) for p in found if len(p.levels) < ENOUGH_ALONE and p.base.runs and p.head.runs}
        for pair in found:
            series = pair.series
            if not series.metric.is_time or _peer_group(series) not in groups or not _is_positive(pair.levels):
                continue
            change = math.nan
            if drift_of is not None and not series.is_ours and (raw := raw_change(pair)) is not None:
                common = (rivals_share or {}) if series.is_baseline else drift_of
                drift = common.get(series.machine, 0.0) if series.metric.follows_machine else 0.0
                change = math.log1p(raw) - math.log1p(drift)
            own = peer(pair.levels.tolist(), is_control=not series.is_ours, span=pair.span, change=change)
            peers.setdefault(_peer_group(series), {})[series.key] = own
        self._peers = {group: Peers(members) for group, members in peers.items()}

    def of(self, pair: Pair) -> Noise | None:
        """Noise of a series; None if unknown."""
        if pair.series.key in self._long:
            return self._long[pair.series.key]
        levels, peers = pair.levels.tolist(), self._peers.get(_peer_group(pair.series))
        machine = peers.scale(pair.series.key, median(levels)) if peers is not None and levels else None
        is_compared = pair.base.runs and pair.head.runs and pair.other_gpus is None
        if machine is None and self._pooled is not None and pair.series.metric.is_time and is_compared:
            machine = self._pooled(pair.series.machine).get(pair.series.key)
        return history_noise(levels, machine, pair.span)


def rerun_noises(found: Sequence[Pair]) -> dict[str, Noise]:
    """Noise by re-runs, the series' own and those of its machine, by series key; times only."""
    scatters: dict[_PeerGroup, dict[str, RerunScatter]] = {}
    for pair in found:
        if pair.series.metric.is_time and (scatter := rerun_scatter(pair.reruns)) is not None:
            scatters.setdefault(_peer_group(pair.series), {})[pair.series.key] = scatter
    noises = {}
    for pair in found:
        group = scatters.get(_peer_group(pair.series), {})
        if not group or not _is_positive(pair.levels):
            continue
        others = [scatter for key, scatter in group.items() if key != pair.series.key]
        noise = rerun_noise(median(pair.levels.tolist()), group.get(pair.series.key), others)
        if noise is not None:
            noises[pair.series.key] = noise
    return noises


def _is_positive(levels: Floats) -> bool:
    return len(levels) > 0 and bool(levels.min() > 0)


def _peer_group(series: Series) -> _PeerGroup:
    return series.machine, series.environment, series.metric.unit, series.metric.noise_family


# The noise that a check would use for each series of a machine, and its A/A pairs: runs of equal code.

Check = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EqualPair:
    """An A/A pair: consecutive runs of equal code on one GPU, by their indices in the series."""

    runs: SeriesRuns
    first: int
    second: int
    is_same_session: bool
    check: Check  # both commits, the GPU, and a number among several such pairs


class MachineNoises:
    """Noise of each series of a machine, as `check` would use it."""

    def __init__(self, history: MachineHistory, pooled: Mapping[str, float]) -> None:
        self._pooled = pooled
        self._gpu = _usual_gpu(history.series)
        self._levels = {each.series.key: self._levels_of(each) for each in history.series}
        self._pairs = {each.series.key: _pairs(each) for each in history.series}
        self._scatter = {
            key: scatter
            for each in history.series
            if (scatter := rerun_scatter(_groups(self._pairs[key := each.series.key]))) is not None
        }
        self._long = long_noises(self._levels)
        self._peers = self._peers_of(history.series)
        self._groups: dict[_PeerGroup, list[tuple[str, RerunScatter]]] = {}
        for each in history.series:
            if each.series.key in self._scatter:
                self._groups.setdefault(_peer_group(each.series), []).append(
                    (each.series.key, self._scatter[each.series.key])
                )
        self._trends = {group: VarianceTrend([one for _, one in own]) for group, own in self._groups.items()}
        self._priors: dict[str, VariancePrior | None] = {}
        self._history: dict[str, Noise | None] = {}

    def levels(self, runs: SeriesRuns) -> Sequence[float]:
        """Medians over the runs of each commit, of the most frequent GPU, or of all GPUs if that measured none."""
        return self._levels[runs.series.key]

    def pairs(self, runs: SeriesRuns) -> Sequence[EqualPair]:
        return self._pairs[runs.series.key]

    def same_session(self, runs: SeriesRuns) -> Noise | None:
        history, reruns = self.history(runs), self.reruns(runs)
        return history if reruns is None or is_long_and_calmer(history, reruns) else reruns

    def history(self, runs: SeriesRuns) -> Noise | None:
        key = runs.series.key
        if key in self._long:
            return self._long[key]
        if key not in self._history:
            levels = self._levels[key]
            machine = self._peers[_peer_group(runs.series)].scale(key, median(levels)) or self._pooled.get(key)
            self._history[key] = history_noise(levels, machine)
        return self._history[key]

    def reruns(self, runs: SeriesRuns, without: EqualPair | None = None) -> Noise | None:
        """Noise by the series' own re-runs, `without` one pair, with the prior of its machine."""
        key = runs.series.key
        if key not in self._priors:
            self._priors[key] = self._prior(key, _peer_group(runs.series))
        own = self._scatter.get(key)
        if without is not None and without.is_same_session:
            own = rerun_scatter(_groups([pair for pair in self._pairs[key] if pair is not without]))
        return moderated(own, self._priors[key])

    def _prior(self, key: str, group: _PeerGroup) -> VariancePrior | None:
        level, members = median(self._levels[key]), self._groups.get(group, [])
        if key in self._scatter:  # a series is no prior of itself
            return variance_prior(level, [scatter for other, scatter in members if other != key])
        return self._trends[group].prior(level) if members else None

    def _levels_of(self, runs: SeriesRuns) -> list[float]:
        on_gpu = (runs.gpu == self._gpu) | (runs.gpu == 0)
        chosen = on_gpu if on_gpu.any() else np.ones(len(runs.value), dtype=bool)
        commit, value = runs.commit[chosen], runs.value[chosen]
        starts = np.flatnonzero(np.diff(commit, prepend=-1))
        if len(starts) == len(value):
            return list(value.tolist())
        return [float(np.median(part)) for part in np.split(value, starts[1:])]

    def _peers_of(self, series: Iterable[SeriesRuns]) -> Mapping[_PeerGroup, Peers[str]]:
        """Peers of each group with a short history."""
        short = {_peer_group(each.series) for each in series if each.series.key not in self._long}
        peers: dict[_PeerGroup, dict[str, Peer]] = {group: {} for group in short}
        for each in series:
            if _peer_group(each.series) in short:
                one = peer(self._levels[each.series.key], is_control=not each.series.is_ours)
                peers[_peer_group(each.series)][each.series.key] = one
        return {group: Peers(members) for group, members in peers.items()}


def _usual_gpu(series: Iterable[SeriesRuns]) -> int:
    counted: Counter[int] = Counter()
    for runs in series:
        counted.update(runs.gpu.tolist())
    known = [(count, gpu) for gpu, count in counted.items() if gpu]
    return max(known)[1] if known else 0


def _pairs(runs: SeriesRuns) -> list[EqualPair]:
    """Consecutive runs of one commit, or of our equal code, on one GPU."""
    if len(runs.value) < 2:
        return []
    is_ours = runs.series.is_ours
    if (np.diff(np.sort(runs.commit)) > 0).all() and not (is_ours and runs.code):
        return []  # no commit twice, and no code known
    groups: dict[tuple[int | str, int], list[int]] = {}
    for index, (commit, gpu, at) in enumerate(
        zip(runs.commit.tolist(), runs.gpu.tolist(), runs.started_ms.tolist(), strict=True)
    ):
        if at >= 0:
            groups.setdefault((runs.code.get(commit, commit) if is_ours else commit, gpu), []).append(index)
    pairs: list[EqualPair] = []
    seen = Counter[tuple[int, int, int]]()
    for indices in groups.values():
        indices.sort(key=lambda index: (int(runs.started_ms[index]), index))
        for first, second in itertools.pairwise(indices):
            apart_ms = int(runs.started_ms[second] - runs.started_ms[first])
            ends = (int(runs.commit[first]), int(runs.commit[second]), int(runs.gpu[second]))
            pairs.append(
                EqualPair(
                    runs=runs,
                    first=first,
                    second=second,
                    is_same_session=apart_ms <= SESSION_GAP_MS,
                    check=(*ends, seen[ends]),
                )
            )
            seen[ends] += 1
    return pairs


def _groups(pairs: Sequence[EqualPair]) -> list[tuple[float, ...]]:
    """Values of the runs of one session: chains of pairs."""
    groups: list[list[int]] = []
    values = pairs[0].runs.value if pairs else None
    for pair in pairs:
        if not pair.is_same_session:
            continue
        if groups and groups[-1][-1] == pair.first:
            groups[-1].append(pair.second)
        else:
            groups.append([pair.first, pair.second])
    return [tuple(float(values[index]) for index in group) for group in groups] if values is not None else []


_MOVED = 0.003  # p below which a canary moved: three standard errors
_ALIKE = 2.0  # largest ratio of the movements of canaries that moved alike
_ROOM = 1.5  # a change up to this many times a canary's may be the machine's


def may_explain(drift: MachineDrift, change: float) -> bool:
    """Whether a single canary moved by about this relative change, so that the machine may have caused it."""
    if drift.change or change <= -1:
        return False
    moved = math.log1p(change)
    return any(
        moved * math.log1p(canary.change) > 0 and abs(moved) <= _ROOM * abs(math.log1p(canary.change))
        for canary in drift.canaries
    )


def level_ratio(pair: Pair) -> float | None:
    """Head's median over base's, whichever GPUs measured them; None unless both are positive."""
    if not pair.base.runs or not pair.head.runs:
        return None
    before, after = (level([run.value for run in side.runs]) for side in (pair.base, pair.head))
    return after / before if before > 0 and after > 0 else None


def raw_change(pair: Pair) -> float | None:
    """Relative change, drift included; None where a side has no positive value, or GPUs differ."""
    ratio = None if pair.other_gpus else level_ratio(pair)
    return None if ratio is None else ratio - 1


def rivals_shift(found: Sequence[Pair]) -> dict[str, float]:
    """Common change of each machine's baselines, caused by the machine or by a new library."""
    changes: dict[str, list[float]] = {}
    for pair in found:
        if pair.series.is_baseline and pair.series.metric.noise_family == "latency":
            change = raw_change(pair)
            if change is not None:
                changes.setdefault(pair.series.machine, []).append(change)
    return {machine: common_drift(own) for machine, own in changes.items()}


def machine_drifts(found: Sequence[Pair], canary_moves: Mapping[str, Estimate]) -> tuple[MachineDrift, ...]:
    """Drift of each machine that moved. `canary_moves`: estimates of canaries by the key of their series."""
    controls = [
        (pair.series, change)
        for pair in found
        if not pair.series.is_ours
        and pair.series.metric.noise_family == "latency"
        and (change := raw_change(pair)) is not None
    ]
    drifts = []
    for machine in sorted({series.machine for series, _ in controls}):
        own = [(series, change) for series, change in controls if series.machine == machine]
        canaries = [(series, canary_moves[series.key]) for series, _ in own if series.key in canary_moves]
        shared = _shared([change for _, change in own], [comparison for _, comparison in canaries])
        moved = tuple(
            CanaryChange(workload=series.workload or series.title, change=estimate.change)
            for series, estimate in canaries
            if estimate.p_value < _MOVED
        )
        if shared or moved:
            drifts.append(MachineDrift(machine=machine, change=shared, controls=len(own), canaries=moved))
    return tuple(drifts)


def _shared(changes: Sequence[float], canaries: Sequence[Estimate]) -> float:
    """The change that all controls of a machine share: 0.0 if there is none."""
    moves = [math.log1p(canary.change) for canary in canaries]
    sizes = [abs(move) for move in moves]
    if len(canaries) >= 2 and all(canary.p_value < _MOVED for canary in canaries):
        alike = len({move > 0 for move in moves}) == 1 and max(sizes) <= _ALIKE * min(sizes)
        return math.expm1(median(moves)) if alike else 0.0
    shared = common_drift(changes)
    return shared if all(canary.ci_low <= shared <= canary.ci_high for canary in canaries) else 0.0
