"""Noise of a machine's series, for the analysis of short histories."""

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

import numpy as np
from sqlalchemy import Connection, select

from ..model.metric import metric
from ..model.series import UNORDERED_POSITION
from ..statistics.machine_noise import Peer, Peers, peer
from . import schema
from .commit_index import read_commit_index
from .mappers import workloads
from .points import batches, with_points

_PeerKey = tuple[int, int, str, str]  # machine, environment, unit, noise family
_COMMITS = 100  # newest commits of the project


@dataclass(slots=True)
class MachinePeers:
    """Noise of a project's machines, read on demand and cached."""

    project_id: int
    _known: dict[_PeerKey, Peers[int]] = field(default_factory=dict)

    def scales(self, connection: Connection, levels: dict[int, float]) -> dict[int, float | None]:
        """The machine's noise scale at the level of each series, by series id; None: unknown."""
        series = schema.series
        rows = connection.execute(
            select(series.c.id, series.c.machine_id, series.c.environment_id, series.c.metric, series.c.unit).where(
                series.c.id.in_(levels)
            )
        ).all()
        key_of: dict[int, _PeerKey] = {
            row.id: (row.machine_id, row.environment_id, row.unit, family)
            for row in rows
            if (family := metric(row.metric, row.unit).noise_family) is not None
        }
        for key in set(key_of.values()) - self._known.keys():
            self._known[key] = Peers(_read(connection, self.project_id, key))
        return {number: self._known[key].scale(number, levels[number]) for number, key in key_of.items()}


def _read(connection: Connection, project: int, key: _PeerKey) -> dict[int, Peer]:
    series = schema.series
    known = workloads(connection, project)
    rows = connection.execute(
        select(series.c.id, schema.benchmark.c.name, series.c.implementation, series.c.metric, series.c.unit)
        .join_from(series, schema.benchmark, schema.benchmark.c.id == series.c.benchmark_id)
        .where(
            series.c.project_id == project,
            series.c.machine_id == key[0],
            series.c.environment_id == key[1],
            series.c.unit == key[2],
        )
        .order_by(series.c.id)
    ).all()
    rows = [row for row in rows if metric(row.metric, row.unit).noise_family == key[3]]
    index = read_commit_index(connection, project)
    since = np.sort(index.position)[-_COMMITS:].min(initial=UNORDERED_POSITION)
    points = {
        row.id: [
            point
            for point in index.rows(row.id, columns, positions=(int(since), UNORDERED_POSITION))
            if point.value is not None
        ]
        for batch in batches(rows, 500)
        for row, columns in with_points(connection, batch)
    }
    gpu = _usual_gpu(point.gpu for series_points in points.values() for point in series_points)
    peers: dict[int, Peer] = {}
    for row in rows:
        own = [point for point in points.get(row.id, ()) if point.gpu in {None, gpu}]
        levels = _levels((point.commit_id, point.value) for point in own if point.value is not None)
        if levels and min(levels) > 0:
            suite = row.name.rpartition(".")[0]
            is_control = known.is_rival(suite, row.implementation) or known.is_control(suite, row.implementation)
            peers[row.id] = peer(levels, is_control=is_control)
    return peers


def _usual_gpu(gpus: Iterable[str | None]) -> str | None:
    """The GPU with the most points: levels differ between GPUs, which is not noise."""
    counts = Counter(gpu for gpu in gpus if gpu is not None)
    return max(counts, key=lambda gpu: (counts[gpu], gpu), default=None)


def _levels(values: Iterable[tuple[int, float]]) -> list[float]:
    return [median(value for _, value in group) for _, group in itertools.groupby(values, key=lambda pair: pair[0])]
