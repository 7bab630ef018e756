"""Which series stand beside one in its figure: the workload's other implementations, and the machine's canaries."""

from typing import Any

from sqlalchemy import Connection

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.queries.profiles import profile_key, profiles
from warpwatch.dashboard.store.reading import Workloads, select_series, series_record, workloads
from warpwatch.dashboard.store.records import Profile, Series
from warpwatch.dashboard.store.store import Store


def others_of(connection: Connection, row: Any, known: Workloads) -> list[tuple[int, Series]]:
    """Ids and records of twins of ours first, then of rivals, each by name; `row` is of `select_series`."""
    if row.implementation is None:
        return []
    table = tables.series
    rows = connection.execute(
        select_series().where(
            table.c.benchmark_id == row.benchmark_id, table.c.machine_id == row.machine_id,
            table.c.environment_id == row.environment_id, table.c.workload.is_not_distinct_from(row.workload),
            table.c.id != row.id, table.c.implementation.is_not(None),
        )
    ).all()  # fmt: skip
    case = series_record(row, known).case
    same = [(other.id, record) for other in rows if (record := series_record(other, known)).case == case]
    same.sort(key=lambda one: (one[1].is_baseline, one[1].implementation or ""))
    return same


def canaries_of(connection: Connection, row: Any, own: Series, known: Workloads) -> list[tuple[int, Series]]:
    """The latencies of the machine's canaries, beside a time that the machine's state is in."""
    if not known.controls or own.is_control or own.workload is None or not own.metric.follows_machine:
        return []
    table = tables.series
    rows = connection.execute(
        select_series().where(
            table.c.machine_id == row.machine_id, table.c.environment_id == row.environment_id,
            table.c.metric == "latency", table.c.implementation.in_({name for _, name in known.controls}),
        )
    ).all()  # fmt: skip
    canaries = [(other.id, record) for other in rows if (record := series_record(other, known)).is_control]
    return sorted(canaries, key=lambda one: one[1].workload or "")


def elsewhere(store: Store, key: str) -> tuple[Series, ...]:
    """The same benchmark, parameters and metric on other machines and in other environments."""
    table = tables.series
    with store.read() as connection:
        row = connection.execute(select_series().where(table.c.key == key)).one_or_none()
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
    found = profiles(
        connection, row.project_id, tables.profile.c.workload == own.workload,
        tables.profile.c.implementation == own.implementation, tables.run.c.machine_id == row.machine_id,
    )  # fmt: skip
    return found.get(profile_key(own))
