"""One point of a series with everything recorded of it."""

from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from ...model.compiled_code import CompiledCode
from ...model.history import PointFacts
from ...model.series import Origin, workload_of
from .. import schema
from ..engine import Store
from ..mappers import moment, select_series, series_record, workloads
from ..points import read_samples
from .commits import compiled_of
from .series_lines import Records, SeriesLine, lines, project_order

# Where a value comes from: the run's machine and software, and what was noted while it was measured.


def origin(store: Store, key: str, run: str) -> Origin | None:
    """What the run of that name recorded for the series; None without a context file."""
    with store.read() as connection:
        row = connection.execute(select_series().where(schema.series.c.key == key)).one_or_none()
        return origin_of(connection, row, run) if row is not None else None


def origin_of(connection: Connection, series: Any, run: str) -> Origin | None:
    """The same for a row of `select_series`."""
    runs, detail = schema.run, schema.detail
    row = connection.execute(
        select(runs).where(runs.c.project_id == series.project_id, runs.c.name == run)
    ).one_or_none()
    if row is None or not row.context:
        return None
    measuring = connection.execute(
        select(detail.c.data).where(
            detail.c.run_id == row.id,
            detail.c.suite == series.benchmark_name.rpartition(".")[0],
            detail.c.workload == series.workload,
            detail.c.implementation == series.implementation,
        )
    ).scalar()
    return Origin(
        run=row.name,
        started_at=moment(row.started_ms),
        gpu=row.context.get("gpu") or {},
        cpu=row.context.get("cpu") or {},
        software=row.context.get("software") or {},
        measuring=measuring or {},
    )


def point_facts(store: Store, key: str, run: str | None = None) -> PointFacts | None:
    """The newest point of the run whose name begins with `run`; without one the series' newest.

    None if the series has no such point.
    """
    with store.read() as connection:
        row = connection.execute(select_series().where(schema.series.c.key == key)).one_or_none()
        if row is None:
            return None
        order = project_order(store, connection, row.project_id)
        line = lines(connection, order, [row.id]).get(row.id)
        place = _place(connection, row, line, run) if line is not None else None
        if line is None or place is None:
            return None
        run_place = np.searchsorted(order.commit_index.runs, line.points.run)
        before = _before(line, place, order.commit_index.gpu[run_place])
        known = workloads(connection, row.project_id)
        series = series_record(row, known)
        workload = workload_of(series, known)
        around = [number for number in (place - 1, place, place + 1, before) if number is not None]
        wanted = np.array([number for number in around if 0 <= number < len(line.rank)], dtype=np.int64)
        records = Records(connection, [(line, wanted)])
        told = dict(zip(wanted.tolist(), records.points(line, wanted), strict=True))
        samples = _samples(connection, row.id)

        def compiled(number: int | None) -> tuple[CompiledCode, ...]:
            if workload is None or number is None:
                return ()
            return compiled_of(connection, int(line.points.commit[number]), workload.operator)

        return PointFacts(
            series=series,
            point=told[place],
            before=told[before] if before is not None else None,
            older=told[place - 1].run if place else None,
            newer=told[place + 1].run if place + 1 in told else None,
            samples=samples(line, place),
            samples_before=samples(line, before) if before is not None else (),
            origin=origin_of(connection, row, told[place].run),
            origin_before=origin_of(connection, row, told[before].run) if before is not None else None,
            compiled=compiled(place),
            compiled_before=compiled(before),
        )


def _place(connection: Connection, row: Any, line: SeriesLine, run: str | None) -> int | None:
    if run is None:
        return len(line.rank) - 1
    table = schema.run
    named = select(table.c.id).where(
        table.c.machine_id == row.machine_id, table.c.name.startswith(run, autoescape=True)
    )
    ids = connection.execute(named).scalars().all()
    places = np.flatnonzero(np.isin(line.points.run, ids))
    return int(places[-1]) if len(places) else None


def _before(line: SeriesLine, place: int, card: Any) -> int | None:
    """The newest number of an earlier commit; of the same card where there is one."""
    earlier = np.flatnonzero(line.has_number[:place] & (line.rank[:place] < line.rank[place]))
    same = earlier[card[earlier] == card[place]]
    chosen = same if len(same) else earlier
    return int(chosen[-1]) if len(chosen) else None


def _samples(connection: Connection, series: int) -> Any:
    """A function that gives the kept samples of a point, smallest first; none where they were not kept."""
    columns = read_samples(connection, [series]).get(series)

    def of(line: SeriesLine, place: int) -> tuple[float, ...]:
        if columns is None:
            return ()
        mine = np.flatnonzero((columns.run == line.points.run[place]) & (columns.commit == line.points.commit[place]))
        starts = np.concatenate(([0], np.cumsum(columns.count)))
        found = [columns.samples[starts[each] : starts[each + 1]] for each in mine[-1:]]
        return tuple(np.sort(np.concatenate(found)).tolist()) if found else ()

    return of
