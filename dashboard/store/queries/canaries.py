"""The canaries of each machine as they stand: what no commit changes, so that what moves them is the machine."""

from typing import Any

from sqlalchemy import Connection, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.machine_records import Canary, Visit
from warpwatch.dashboard.store.queries.latest import Latest, latest
from warpwatch.dashboard.store.reading import changes_of, project_id, workloads
from warpwatch.dashboard.store.store import Store


def canaries(store: Store, project: str) -> dict[str, tuple[Canary, ...]]:
    """By machine's name, each with its last change of level and the visits of its newest run."""
    return store.cached(project, "canaries", lambda: _canaries(store, project))


def _canaries(store: Store, project: str) -> dict[str, tuple[Canary, ...]]:
    series = tables.series
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return {}
        known = workloads(connection, owner)
        if not known.controls:
            return {}
        wanted = {implementation for _, implementation in known.controls}
        found = latest(
            connection, known, series.c.project_id == owner, series.c.metric == "latency",
            series.c.implementation.in_(wanted),
        )  # fmt: skip
        # Of every canary only those of a machine's own device ever have a number there.
        found = [
            item for item in found if item.series.is_control and any(x is not None for x in item.summary.sparkline)
        ]
        keys = [item.series.key for item in found]
        rows = connection.execute(select(series.c.key, series.c.id).where(series.c.key.in_(keys)))
        id_of = {row.key: row.id for row in rows}
        changes = changes_of(connection, list(id_of.values()))
        told: dict[str, list[Canary]] = {}
        for item in found:
            its_changes = changes.get(id_of[item.series.key], ())
            told.setdefault(item.series.machine, []).append(
                Canary(
                    series=item.series,
                    value=item.summary.value,
                    sparkline=tuple(item.summary.sparkline),
                    last_change=its_changes[-1] if its_changes else None,
                    run_time=item.newest_run,
                    visits=_visits(connection, item),
                )
            )
    return {machine: tuple(each) for machine, each in told.items()}


def _visits(connection: Connection, item: Latest) -> tuple[Visit, ...]:
    detail, series = tables.detail, item.series
    data: dict[str, Any] | None = connection.execute(
        select(detail.c.data).where(
            detail.c.run_id == item.summary.run_id, detail.c.suite == series.suite,
            detail.c.workload == series.workload, detail.c.implementation == series.implementation,
        )
    ).scalar()  # fmt: skip
    return tuple(Visit(at_s=visit["at_s"], latency_s=visit["latency_s"]) for visit in (data or {}).get("visits") or ())
