"""A series: its history and findings, other implementations, canaries, and the same series elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from ...model.changepoint import SeriesChange
from ...model.series import Point, Profile, Series
from .. import schema
from ..engine import Store
from ..finding_records import changes_of, episodes_of
from ..mappers import Workloads, select_series, series_record, series_row, workloads
from .roofline import profile_key, profiles
from .series_lines import gpu_ratios, points_of


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
    """A series by key."""
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
        points = points_of(store, connection, row.project_id, [row.id]).get(row.id, ())
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
