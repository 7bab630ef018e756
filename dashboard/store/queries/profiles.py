"""The newest profile of each workload and implementation on each machine."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.reading import commits_by_id
from warpwatch.dashboard.store.records import Profile, ProfiledKernel, Series

_Key = tuple[str, str, str, str, str]  # machine, environment, suite, workload, implementation


def profiles(connection: Connection, project: int, *where: Any) -> dict[_Key, Profile]:
    """Profiles by `profile_key`, narrowed by conditions on the profile, machine and environment tables."""
    table, run = tables.profile, tables.run
    rows = connection.execute(
        select(
            table,
            run.c.commit_id,
            run.c.name.label("run_name"),
            tables.machine.c.name.label("machine_name"),
            tables.environment.c.name.label("environment_name"),
        )
        .join(run, run.c.id == table.c.run_id)
        .join(tables.machine, tables.machine.c.id == run.c.machine_id)
        .join(tables.environment, tables.environment.c.id == run.c.environment_id)
        .where(run.c.project_id == project, *where)
        .order_by(run.c.started_ms, run.c.id)
    ).all()
    newest = {
        (row.machine_name, row.environment_name, row.suite, row.workload, row.implementation): row for row in rows
    }
    commits = commits_by_id(connection, {row.commit_id for row in newest.values()})
    return {
        key: Profile(
            commit=commits[row.commit_id],
            run=row.run_name,
            profiler=str(row.data["profiler"]),
            dram_bytes=row.data["dram_bytes"],
            kernels=tuple(map(_kernel, row.data["kernels"])),
        )
        for key, row in newest.items()
    }


def profile_key(series: Series) -> _Key:
    """Under which the profile of a series' workload and implementation is found."""
    return (
        series.machine, series.environment, series.suite, series.workload or "", series.implementation or "",
    )  # fmt: skip


def _kernel(data: Mapping[str, Any]) -> ProfiledKernel:
    stalls = sorted((data.get("stalls") or {}).items(), key=lambda stall: -stall[1])
    return ProfiledKernel(
        name=data["name"], signature=data.get("signature"), duration_s=data["duration_s"],
        dram_bytes=data["dram_bytes"], l2_bytes=data["l2_bytes"], l1_bytes=data["l1_bytes"],
        occupancy=data.get("occupancy"), tensor_pipe=data.get("tensor_pipe"), stalls=tuple(stalls),
    )  # fmt: skip
