"""How much each series of a check scatters from run to run, told with the help of its machine's other series."""

import math
from collections.abc import Mapping, Sequence
from statistics import median

from warpwatch.dashboard.drift import raw_change
from warpwatch.dashboard.statistics.machine_noise import (
    ENOUGH_ALONE,
    Peer,
    history_noise,
    long_noises,
    machine_scale,
    peer,
)
from warpwatch.dashboard.statistics.noise import Noise
from warpwatch.dashboard.statistics.rerun_noise import RerunScatter, rerun_noise, rerun_scatter
from warpwatch.dashboard.store.columns import Floats
from warpwatch.dashboard.store.queries.pairs import Pair
from warpwatch.dashboard.store.records import Series

_Place = tuple[str, str, str, str | None]  # machine, environment, unit, noise family: what peers share


class HistoryNoises:
    """The noise of one run of a series by its history and, where that is short, by those of its machine's others."""

    def __init__(
        self, found: Sequence[Pair], drift_of: Mapping[str, float] | None = None,
        rivals_share: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        """With the machines' drifts, controls also tell by how they moved beside it, and baselines beside what they
        share.
        """
        self._long = long_noises({pair.series.key: pair.levels for pair in found})
        self._peers: dict[_Place, list[tuple[str, Peer]]] = {}
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
            told = peer(pair.levels.tolist(), is_control=not series.is_watched, span=pair.span, change=moved)
            self._peers.setdefault(_place(series), []).append((series.key, told))

    def of(self, pair: Pair) -> Noise | None:
        """None where neither tells."""
        if pair.series.key in self._long:
            return self._long[pair.series.key]
        machine, levels = None, pair.levels.tolist()
        if levels:
            others = [other for key, other in self._peers.get(_place(pair.series), ()) if key != pair.series.key]
            machine = machine_scale(median(levels), others)
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
