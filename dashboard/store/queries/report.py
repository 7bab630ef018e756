"""The report: every workload and implementation at the newest commit of each machine."""

import re
from collections.abc import Iterable

from sqlalchemy import select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.queries.latest import Latest, backends, latest
from warpwatch.dashboard.store.queries.overview import headlines
from warpwatch.dashboard.store.reading import commits_by_id, workloads
from warpwatch.dashboard.store.records import Commit, ReportRow, Status
from warpwatch.dashboard.store.store import Store


def report(store: Store, *, project: str | None = None, machine: str | None = None) -> tuple[ReportRow, ...]:
    """Latencies at the newest commit of each machine and project, by machine, operator and workload.

    Only series whose newest value is of that commit: what it did not measure is not in it.
    """
    rows: list[ReportRow] = []
    with store.read() as connection:
        owners = connection.execute(select(tables.project.c.id, tables.project.c.name)).all()
        for owner in owners:
            if project is not None and owner.name != project:
                continue
            where = [tables.series.c.project_id == owner.id]
            if machine is not None:
                where.append(tables.machine.c.name == machine)
            judged = [
                item
                for item in latest(connection, workloads(connection, owner.id), *where)
                if item.series.metric.is_time and item.series.metric.is_judged and not item.series.is_control
            ]
            found = [item for item, _ in headlines(judged)]
            commits = commits_by_id(connection, {item.summary.commit_id for item in found})
            newest = _newest_by_machine(found, commits)
            kept = [item for item in found if commits[item.summary.commit_id] is newest[item.series.machine]]
            took = backends(connection, sorted({item.summary.run_id for item in kept}))
            rows.extend(_row(item, commits[item.summary.commit_id], took) for item in kept)
    return tuple(sorted(rows, key=_order))


def _order(row: ReportRow) -> tuple[object, ...]:
    """Ours before its rivals within a workload, and S512 before S2048."""
    size = tuple((int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", row.workload))
    place = (row.project, row.machine, row.environment, row.operator, row.benchmark)
    return (*place, size, row.is_baseline, row.implementation != "warpwatch", row.implementation)


def _newest_by_machine(found: Iterable[Latest], commits: dict[int, Commit]) -> dict[str, Commit]:
    newest: dict[str, Commit] = {}
    for item in found:
        commit = commits[item.summary.commit_id]
        if item.series.machine not in newest or commit.position > newest[item.series.machine].position:
            newest[item.series.machine] = commit
    return newest


def _row(item: Latest, commit: Commit, took: dict[tuple[int, str, str, str], str | None]) -> ReportRow:
    series, summary, workload = item.series, item.summary, item.workload
    latency_s = summary.value
    parameters = ", ".join(value for name, value in series.parameters if name != "implementation")
    return ReportRow(
        project=series.project,
        machine=series.machine,
        environment=series.environment,
        commit=commit,
        operator=workload.operator if workload else series.suite.rpartition(".")[2],
        benchmark=series.benchmark,
        workload=series.workload or parameters or series.benchmark.rpartition(".")[2],
        implementation=series.implementation or "",
        is_baseline=series.is_baseline,
        status=item.status if latency_s is not None or item.status is not Status.OK else Status.FAILED,
        reason=summary.reason,
        latency_s=latency_s,
        q25_s=summary.q25,
        q75_s=summary.q75,
        sample_count=summary.sample_count,
        bandwidth_bps=workload.bytes / latency_s if workload and latency_s else None,
        flop_rate=workload.flops / latency_s if workload and workload.flops and latency_s else None,
        speed_of_light=item.speed_of_light,
        ratios=item.ratios,
        run=summary.run_name,
        run_time=item.newest_run,
        backend=took.get((summary.run_id, series.suite, series.workload or "", series.implementation or "")),
    )
