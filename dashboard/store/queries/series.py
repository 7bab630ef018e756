"""A series: its history and findings, other implementations, canaries, itself elsewhere, facts of one of its points."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from ...model.changepoint import SeriesChange
from ...model.compiled_code import CompiledCode
from ...model.history import PointFacts
from ...model.series import Origin, Point, Profile, Series, workload_of
from .. import schema
from ..engine import Store
from ..finding_records import changes_of, episodes_of
from ..mappers import Workloads, moment, select_series, series_record, series_row, workloads
from ..points import read_samples
from .commits import compiled_of
from .roofline import profile_key, profiles
from .series_lines import Records, SeriesLine, gpu_ratios, lines, points_of, project_order


def others_of(connection: Connection, row: Any, known: Workloads) -> list[tuple[int, Series]]:
    """Ids and records of the workload's other implementations, ours before baselines; `row`: of `select_series`."""
    if row.implementation is None:
        return []
    table = schema.series
    rows = connection.execute(
        select_series().where(
            table.c.benchmark_id == row.benchmark_id,
            table.c.machine_id == row.machine_id,
            table.c.environment_id == row.environment_id,
            table.c.workload.is_not_distinct_from(row.workload),
            table.c.id != row.id,
            table.c.implementation.is_not(None),
        )
    ).all()
    case = series_record(row, known).case
    same = [(other.id, record) for other in rows if (record := series_record(other, known)).case == case]
    same.sort(key=lambda one: (one[1].is_baseline, one[1].implementation or ""))
    return same


def canaries_of(connection: Connection, row: Any, own: Series, known: Workloads) -> list[tuple[int, Series]]:
    """Ids and records of the latencies of the machine's canaries, for a metric that depends on the machine's state."""
    if not known.controls or own.is_control or own.workload is None or not own.metric.follows_machine:
        return []
    table = schema.series
    rows = connection.execute(
        select_series().where(
            table.c.machine_id == row.machine_id,
            table.c.environment_id == row.environment_id,
            table.c.metric == "latency",
            table.c.implementation.in_({name for _, name in known.controls}),
        )
    ).all()
    canaries = [(other.id, record) for other in rows if (record := series_record(other, known)).is_control]
    return sorted(canaries, key=lambda one: one[1].workload or "")


def elsewhere(store: Store, key: str) -> tuple[Series, ...]:
    """The same benchmark, parameters and metric on other machines and in other environments."""
    table = schema.series
    with store.read() as connection:
        row = series_row(connection, key)
        if row is None:
            return ()
        rows = connection.execute(
            select_series().where(table.c.benchmark_id == row.benchmark_id, table.c.id != row.id)
        ).all()
        known = workloads(connection, row.project_id)
    same = [other for other in rows if (other.parameters, other.metric) == (row.parameters, row.metric)]
    return tuple(series_record(other, known) for other in same)


def profile_of(connection: Connection, row: Any, own: Series) -> Profile | None:
    """The newest profile of the series' workload and implementation on its machine."""
    if own.workload is None or own.implementation is None:
        return None
    profile_of_key = profiles(
        connection,
        row.project_id,
        schema.profile.c.workload == own.workload,
        schema.profile.c.implementation == own.implementation,
        schema.run.c.machine_id == row.machine_id,
    )
    return profile_of_key.get(profile_key(own))


def series(store: Store, key: str) -> Series | None:
    with store.read() as connection:
        row = series_row(connection, key)
        return series_record(row, workloads(connection, row.project_id)) if row is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnHistory:
    """A series with its points, by commit, then run, and its findings."""

    series: Series
    points: Sequence[Point]
    changes: tuple[SeriesChange, ...]
    episodes: tuple[SeriesChange, ...]
    gpu_ratios: Mapping[str, float]  # GPU-adjusted over measured value by commit hash; empty if one GPU measured


def own_history(store: Store, key: str) -> OwnHistory | None:
    """The points and findings of a series by key."""
    with store.read() as connection:
        row = series_row(connection, key)
        if row is None:
            return None
        points = points_of(store, connection, row.project_name, [row.id]).get(row.id, ())
        measured = list(dict.fromkeys(point.commit.hash for point in points if point.value is not None))
        ratios = gpu_ratios(connection, [row.id]).get(row.id, [])
        return OwnHistory(
            series=series_record(row, workloads(connection, row.project_id)),
            points=points,
            gpu_ratios={commit: ratio for commit, ratio in zip(measured, ratios, strict=False) if ratio is not None}
            if len(measured) == len(ratios)
            else {},
            changes=changes_of(connection, [row.id]).get(row.id, ()),
            episodes=episodes_of(connection, [row.id]).get(row.id, ()),
        )


def origin(store: Store, key: str, run: str) -> Origin | None:
    """Machine, software and conditions of a run of the series; None without a context file."""
    with store.read() as connection:
        row = series_row(connection, key)
        return origin_of(connection, row, run) if row is not None else None


def origin_of(connection: Connection, series: Any, run: str) -> Origin | None:
    """`origin` for a row of `select_series`."""
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


def point_facts(store: Store, key: str, run: str | None = None, *, commit: str | None = None) -> PointFacts | None:
    """The newest point of the run whose name starts with `run`, of a commit (full hash), or of the series.

    None without such a point.
    """
    with store.read() as connection:
        row = series_row(connection, key)
        if row is None:
            return None
        order = project_order(store, connection, row.project_name)
        line = lines(connection, order, [row.id]).get(row.id)
        index = _index(connection, row, line, run, commit) if line is not None else None
        if line is None or index is None:
            return None
        run_rows = np.searchsorted(order.commit_index.runs, line.points.run)
        before = _before(line, index, order.commit_index.gpu[run_rows])
        known = workloads(connection, row.project_id)
        series = series_record(row, known)
        workload = workload_of(series, known)
        newest = len(line.rank) - 1
        around = [number for number in (index - 1, index, index + 1, before, newest) if number is not None]
        shown = np.array([number for number in around if 0 <= number < len(line.rank)], dtype=np.int64)
        records = Records(connection, [(line, shown)])
        points = dict(zip(shown.tolist(), records.points(line, shown), strict=True))
        samples = _samples(connection, row.id)

        def compiled(number: int | None) -> tuple[CompiledCode, ...]:
            if workload is None or number is None:
                return ()
            return compiled_of(connection, int(line.points.commit[number]), workload.operator)

        return PointFacts(
            series=series,
            point=points[index],
            before=points[before] if before is not None else None,
            older=points[index - 1].run if index else None,
            newer=points[index + 1].run if index + 1 in points else None,
            newest=points[newest].run if newest != index else None,
            samples=samples(line, index),
            samples_before=samples(line, before) if before is not None else (),
            origin=origin_of(connection, row, points[index].run),
            origin_before=origin_of(connection, row, points[before].run) if before is not None else None,
            compiled=compiled(index),
            compiled_before=compiled(before),
        )


def _index(connection: Connection, row: Any, line: SeriesLine, run: str | None, commit: str | None) -> int | None:
    if commit is not None:
        table = schema.commit
        number = connection.execute(
            select(table.c.id).where(table.c.project_id == row.project_id, table.c.hash == commit)
        ).scalar()
        indices = np.flatnonzero(line.has_number & (line.points.commit == number))
        return int(indices[-1]) if len(indices) else None
    if run is None:
        return len(line.rank) - 1
    table = schema.run
    named = select(table.c.id).where(
        table.c.machine_id == row.machine_id, table.c.name.startswith(run, autoescape=True)
    )
    ids = connection.execute(named).scalars().all()
    indices = np.flatnonzero(np.isin(line.points.run, ids))
    return int(indices[-1]) if len(indices) else None


def _before(line: SeriesLine, index: int, gpu: Any) -> int | None:
    """The newest number of an earlier commit, preferably of the same GPU."""
    earlier = np.flatnonzero(line.has_number[:index] & (line.rank[:index] < line.rank[index]))
    same = earlier[gpu[earlier] == gpu[index]]
    chosen = same if len(same) else earlier
    return int(chosen[-1]) if len(chosen) else None


def _samples(connection: Connection, series: int) -> Any:
    """A function of a point that returns its stored samples, sorted; empty without any."""
    columns = read_samples(connection, [series]).get(series)

    def samples_of(line: SeriesLine, index: int) -> tuple[float, ...]:
        if columns is None:
            return ()
        mine = np.flatnonzero((columns.run == line.points.run[index]) & (columns.commit == line.points.commit[index]))
        starts = np.concatenate(([0], np.cumsum(columns.count)))
        newest = [columns.samples[starts[each] : starts[each + 1]] for each in mine[-1:]]
        return tuple(np.sort(np.concatenate(newest)).tolist()) if newest else ()

    return samples_of
