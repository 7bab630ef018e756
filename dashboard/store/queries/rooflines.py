"""The roofline of each machine: its limits and the newest latency of every workload under them."""

from collections.abc import Mapping
from typing import Any

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.machine_records import Roofline, RooflinePoint
from warpwatch.dashboard.store.queries.latest import Latest, latest
from warpwatch.dashboard.store.queries.profiles import profile_key, profiles
from warpwatch.dashboard.store.queries.projects import machines
from warpwatch.dashboard.store.reading import commits_by_id, project_id, workloads
from warpwatch.dashboard.store.records import Commit, Profile, SpeedOfLight
from warpwatch.dashboard.store.store import Store

_UNKNOWN = SpeedOfLight(of_peak=None, of_ceiling=None)
_TRAIL = 12  # commits


def rooflines(store: Store, project: str) -> tuple[Roofline, ...]:
    """Machines of which some limit is known, each with its points; baselines are among them, canaries are not."""
    return store.cached(project, "rooflines", lambda: _rooflines(store, project))


def _rooflines(store: Store, project: str) -> tuple[Roofline, ...]:
    known_machines = machines(store, project)
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return ()
        found = latest(
            connection, workloads(connection, owner), tables.series.c.project_id == owner, tables.series.c.listed,
            tables.series.c.metric == "latency", tables.summary.c.value.is_not(None),
        )  # fmt: skip
        commits = commits_by_id(connection, {item.summary.commit_id for item in found})
        profiled = profiles(connection, owner)
    points: dict[str, list[RooflinePoint]] = {}
    for item in found:
        point = _point(item, commits, profiled)
        if point is not None:
            points.setdefault(item.series.machine, []).append(point)
    return tuple(
        Roofline(machine=machine, points=tuple(points.get(machine.name, ())))
        for machine in known_machines
        if machine.limits.known
    )


def _point(item: Latest, commits: Mapping[int, Commit], profiled: Mapping[Any, Profile]) -> RooflinePoint | None:
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
        card=item.summary.card,
        ceilings=item.limits.measured,
        profile=profiled.get(profile_key(item.series)),
        trail=tuple(value for value in item.summary.sparkline if value)[-_TRAIL:],
    )
