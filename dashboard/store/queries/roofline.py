"""Rooflines of machines, and the newest profile of each workload."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from ...model.machine import Roofline, RooflinePoint
from ...model.series import Commit, Profile, ProfiledKernel, Series, SpeedOfLight
from .. import schema
from ..engine import Store, cached
from ..mappers import commits_by_id, project_id, select_series, workloads
from .latest import Latest, latest
from .projects import machines

_Key = tuple[str, str, str, str, str]  # machine, environment, suite, workload, implementation


def profiles(connection: Connection, project: int, *where: Any) -> dict[_Key, Profile]:
    """Newest profiles by `profile_key`, under conditions on the profile, machine and environment tables."""
    table, run = schema.profile, schema.run
    rows = connection.execute(
        select(
            table,
            run.c.commit_id,
            run.c.name.label("run_name"),
            schema.machine.c.name.label("machine_name"),
            schema.environment.c.name.label("environment_name"),
        )
        .join(run, run.c.id == table.c.run_id)
        .join(schema.machine, schema.machine.c.id == run.c.machine_id)
        .join(schema.environment, schema.environment.c.id == run.c.environment_id)
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
    """The key of a series in `profiles`."""
    return (
        series.machine,
        series.environment,
        series.suite,
        series.workload or "",
        series.implementation or "",
    )


def _kernel(data: Mapping[str, Any]) -> ProfiledKernel:
    stalls = sorted((data.get("stalls") or {}).items(), key=lambda stall: -stall[1])
    return ProfiledKernel(
        name=data["name"],
        signature=data.get("signature"),
        duration_s=data["duration_s"],
        dram_bytes=data["dram_bytes"],
        l2_bytes=data["l2_bytes"],
        l1_bytes=data["l1_bytes"],
        occupancy=data.get("occupancy"),
        tensor_pipe=data.get("tensor_pipe"),
        stalls=tuple(stalls),
    )


_UNKNOWN = SpeedOfLight(of_peak=None, of_ceiling=None)
_TRAIL = 12  # commits


@cached()
def rooflines(store: Store, project: str) -> tuple[Roofline, ...]:
    """Machines with a known peak or ceiling, with their points; baselines included, canaries not."""
    known_machines = machines(store, project)
    with store.read() as connection:
        owner = project_id(connection, project)
        items = latest(
            connection,
            workloads(connection, owner),
            schema.series.c.project_id == owner,
            schema.series.c.listed,
            schema.series.c.metric == "latency",
            schema.summary.c.value.is_not(None),
        )
        energies = _energies(connection, owner)
        commits = commits_by_id(connection, {item.summary.commit_id for item in items})
        profiled = profiles(connection, owner)
    points: dict[str, list[RooflinePoint]] = {}
    for item in items:
        point = _point(item, commits, profiled, energies)
        if point is not None:
            points.setdefault(item.series.machine, []).append(point)
    return tuple(
        Roofline(machine=machine, points=tuple(points.get(machine.name, ())))
        for machine in known_machines
        if machine.limits.known
    )


def _energies(connection: Connection, owner: int) -> dict[tuple[_Key, int], float]:
    """Joules of one call by `profile_key` and commit id, at the newest commit of each series."""
    summary = schema.summary
    rows = connection.execute(
        select_series(summary.c.value, summary.c.commit_id)
        .join(summary, summary.c.series_id == schema.series.c.id)
        .where(
            schema.series.c.project_id == owner,
            schema.series.c.listed,
            schema.series.c.metric == "energy",
            schema.series.c.unit == "joules",
            summary.c.value.is_not(None),
        )
    )
    return {
        (
            (
                row.machine_name,
                row.environment_name,
                row.benchmark_name.rpartition(".")[0],
                row.workload or "",
                row.implementation or "",
            ),
            row.commit_id,
        ): row.value
        for row in rows
    }


def _point(
    item: Latest,
    commits: Mapping[int, Commit],
    profiled: Mapping[Any, Profile],
    energies: Mapping[tuple[_Key, int], float],
) -> RooflinePoint | None:
    workload, latency_s = item.workload, item.summary.value
    is_shown = item.series.metric.is_latency and not item.series.is_control
    if workload is None or not is_shown or not latency_s or not workload.bytes:
        return None
    return RooflinePoint(
        series=item.series,
        workload=workload,
        implementation=item.series.implementation or "",
        latency_s=latency_s,
        intensity=workload.flops / workload.bytes,
        flop_rate=workload.flops / latency_s,
        bandwidth_bps=workload.bytes / latency_s,
        speed_of_light=item.speed_of_light or _UNKNOWN,
        commit=commits[item.summary.commit_id],
        gpu=item.summary.gpu,
        ceilings=item.limits.measured,
        profile=profiled.get(profile_key(item.series)),
        energy_j=energies.get((profile_key(item.series), item.summary.commit_id)),
        trail=tuple(value for value in item.summary.sparkline if value)[-_TRAIL:],
    )
