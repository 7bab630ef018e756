"""When each machine measured which commit, and which series it left behind."""

from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from warpwatch.dashboard.statistics.arrival import Arrival, arrival
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.reading import project_id
from warpwatch.dashboard.store.store import Store

_FEWEST_MISSED = 3  # commits


def arrivals(store: Store, project: str) -> dict[str, Arrival]:
    """How data of each machine comes, by its name. A run that does not say when it began counts by its commit."""
    return store.cached(project, "arrivals", lambda: _arrivals(store, project))


def _arrivals(store: Store, project: str) -> dict[str, Arrival]:
    run, commit, machine = tables.run, tables.commit, tables.machine
    with store.read() as connection:
        rows = connection.execute(
            select(machine.c.name, func.coalesce(run.c.started_ms, commit.c.date_ms), run.c.commit_id)
            .join_from(run, commit, commit.c.id == run.c.commit_id)
            .join(machine, machine.c.id == run.c.machine_id)
            .where(run.c.project_id == project_id(connection, project))
        )
        runs: dict[str, list[tuple[float, int]]] = {}
        for name, at_ms, commit_id in rows:
            runs.setdefault(name, []).append((at_ms / 1000, commit_id))
    return {name: told for name, its in runs.items() if (told := arrival(its)) is not None}


def stopped(connection: Connection, project: int) -> frozenset[int]:
    """The listed series that their machine has left out, though it went on measuring in the same environment.

    By the number of commits that it has measured since: more than three, and more than three times as many as usually
    lie between two values of the series (the machine's commits until then over the series' values).
    """
    run, commit, series, summary = tables.run, tables.commit, tables.series, tables.summary
    rows = connection.execute(
        select(run.c.machine_id, run.c.environment_id, commit.c.position)
        .join(commit, commit.c.id == run.c.commit_id)
        .where(run.c.project_id == project, commit.c.position.is_not(None))
        .distinct()
    )
    measured: dict[tuple[int, int], list[int]] = {}
    for machine, environment, position in rows:
        measured.setdefault((machine, environment), []).append(position)
    places = {place: np.sort(np.array(positions)) for place, positions in measured.items()}
    newest = connection.execute(
        select(series.c.id, series.c.machine_id, series.c.environment_id, commit.c.position)
        .join(summary, summary.c.series_id == series.c.id)
        .join(commit, commit.c.id == summary.c.commit_id)
        .where(series.c.project_id == project, series.c.listed, commit.c.position.is_not(None))
    ).all()
    late = {
        row.id: (len(its) - until, until)
        for row in newest
        if (its := places.get((row.machine_id, row.environment_id))) is not None
        and len(its) - (until := int(np.searchsorted(its, row.position, "right"))) > _FEWEST_MISSED
    }
    values = _values(connection, late)
    return frozenset(
        number for number, (since, until) in late.items() if since > _FEWEST_MISSED * until / values.get(number, 1)
    )


def _values(connection: Connection, series: Any) -> dict[int, int]:
    chunk = tables.chunk
    if not series:
        return {}
    counted = select(chunk.c.series_id, func.sum(chunk.c.points)).group_by(chunk.c.series_id)
    return {number: count for number, count in connection.execute(counted) if number in series}
