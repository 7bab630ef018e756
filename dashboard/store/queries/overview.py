"""The overview and the report: each judged workload and implementation at its newest commit."""

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, and_, false, or_, select

from ...model.metric import metric
from ...model.naming import kernel_of
from ...model.overview import MovedMetric, OverviewRow, ReportRow
from ...model.series import Commit, Status
from ...model.verdict import CHANGED, ChangeKind
from .. import schema
from ..engine import Store
from ..mappers import commits_by_id, project_id, workloads
from .latest import Latest, backends, latest


def overview(store: Store, project: str, *, machine: str | None = None) -> tuple[OverviewRow, ...]:
    """One row for each listed workload and implementation of ours: its latency, with its other judged metrics.

    Judged series without a latency have a row each. A project without judged metrics (memory only, say) shows all.
    """
    with store.read() as connection:
        owner = project_id(connection, project)
        return tuple(row for row, _ in overview_rows(connection, owner, machine=machine))


def overview_rows(
    connection: Connection, owner: int, *, machine: str | None = None
) -> tuple[tuple[OverviewRow, Latest], ...]:
    """`overview` of a project by id, each row with its series."""
    where = [schema.series.c.project_id == owner, schema.series.c.listed]
    if machine is not None:
        where.append(schema.machine.c.name == machine)
    known = workloads(connection, owner)
    items = latest(connection, known, *where, _is_judged(connection, owner)) or latest(connection, known, *where)
    shown = headlines([item for item in items if item.series.is_ours])
    ids = [
        number
        for item, others in shown
        for number in (item.summary.commit_id, *(each.summary.change_commit_id for each in (item, *others)))
        if number is not None
    ]
    commits = commits_by_id(connection, ids)
    return tuple((overview_row(item, others, commits), item) for item, others in shown)


def headlines(items: Sequence[Latest]) -> list[tuple[Latest, tuple[Latest, ...]]]:
    """The latency of each measurement with its other series; without a latency every series alone."""
    shown: list[tuple[Latest, tuple[Latest, ...]]] = []
    for _, group in itertools.groupby(sorted(items, key=_measurement), key=_measurement):
        series = list(group)
        times = [item for item in series if item.series.metric.is_latency] or series
        shown += [(item, tuple(x for x in series if x not in times)) for item in times]
    order = {item.series.key: number for number, item in enumerate(items)}
    return sorted(shown, key=lambda pair: order[pair[0].series.key])


def _measurement(item: Latest) -> tuple[Any, ...]:
    series = item.series
    return (series.suite, series.parameters, series.machine, series.environment)


def _is_judged(connection: Connection, project: int) -> Any:
    """SQL condition: the series' metric is judged."""
    series = schema.series
    kinds = connection.execute(select(series.c.metric, series.c.unit).where(series.c.project_id == project).distinct())
    judged = [(name, unit) for name, unit in kinds if metric(name, unit).is_judged]
    return or_(false(), *(and_(series.c.metric == name, series.c.unit == unit) for name, unit in judged))


def overview_row(item: Latest, others: Sequence[Latest], commits: dict[int, Commit]) -> OverviewRow:
    """A headline with the other metrics that changed."""
    row = item.summary
    moved = [
        MovedMetric(
            series=other.series,
            value=other.summary.value,
            verdict=other.verdict,
            change=other.summary.change,
            change_commit=commits.get(other.summary.change_commit_id),
            is_across_gpus=bool(other.summary.is_across_gpus),
        )
        for other in others
        if other.verdict in CHANGED
    ]
    return OverviewRow(
        series=item.series,
        operator=item.operator,
        value=row.value,
        status=item.status,
        reason=row.reason,
        commit=commits[row.commit_id],
        change=row.change,
        change_commit=commits.get(row.change_commit_id),
        change_is_step=row.change_is_step,
        change_kind=ChangeKind(row.change_kind) if row.change_kind is not None else None,
        change_q=row.change_q,
        is_across_gpus=bool(row.is_across_gpus),
        gpus=row.gpus,
        gpu_spread=row.gpu_spread,
        gpu_references=row.gpu_references,
        speed_of_light=item.speed_of_light,
        baseline=item.ratios[0] if item.ratios else None,
        sparkline=tuple(row.sparkline),
        verdict=item.verdict,
        newest_run=item.newest_run,
        other_metrics=tuple(moved),
    )


def siblings(store: Store, key: str) -> tuple[OverviewRow, ...]:
    """The newest values of a series and of the other metrics of its measurement; latency first, then judged ones."""
    table = schema.series
    with store.read() as connection:
        row = connection.execute(
            select(table, schema.benchmark.c.name.label("benchmark"))
            .join(schema.benchmark, schema.benchmark.c.id == table.c.benchmark_id)
            .where(table.c.key == key)
        ).one_or_none()
        if row is None:
            return ()
        suite = row.benchmark.rpartition(".")[0]
        items = latest(
            connection,
            workloads(connection, row.project_id),
            table.c.project_id == row.project_id,
            table.c.machine_id == row.machine_id,
            table.c.environment_id == row.environment_id,
            table.c.workload.is_not_distinct_from(row.workload),
            schema.benchmark.c.name.startswith(f"{suite}.", autoescape=True),
        )
        own = next((item.series for item in items if item.series.key == key), None)
        if own is None:
            return ()
        same = [
            item
            for item in items
            if (item.series.suite, item.series.parameters) == (own.suite, own.parameters)
            and (item.series.key == key or item.series.metric.name != own.metric.name)
        ]
        ids = [i for item in same for i in (item.summary.commit_id, item.summary.change_commit_id) if i is not None]
        commits = commits_by_id(connection, ids)
    same.sort(key=lambda item: (not item.series.metric.is_latency, not item.series.metric.is_judged))
    return tuple(overview_row(item, (), commits) for item in same)


def report(store: Store, *, project: str | None = None, machine: str | None = None) -> tuple[ReportRow, ...]:
    """Latencies at the newest commit of each machine and project, by machine, operator and workload.

    Series that were not measured at that commit are left out.
    """
    rows: list[ReportRow] = []
    with store.read() as connection:
        owners = connection.execute(select(schema.project.c.id, schema.project.c.name)).all()
        for owner in owners:
            if project is not None and owner.name != project:
                continue
            where = [schema.series.c.project_id == owner.id]
            if machine is not None:
                where.append(schema.machine.c.name == machine)
            judged = [
                item
                for item in latest(connection, workloads(connection, owner.id), *where)
                if item.series.metric.is_time and item.series.metric.is_judged and not item.series.is_control
            ]
            items = [item for item, _ in headlines(judged)]
            commits = commits_by_id(connection, {item.summary.commit_id for item in items})
            newest = _newest_by_machine(items, commits)
            current = [item for item in items if commits[item.summary.commit_id] is newest[item.series.machine]]
            backend_of = backends(connection, sorted({item.summary.run_id for item in current}))
            rows.extend(_row(item, commits[item.summary.commit_id], backend_of) for item in current)
    return tuple(sorted(rows, key=_order))


def _order(row: ReportRow) -> tuple[object, ...]:
    """Sort key: ours before baselines within a workload, and S512 before S2048."""
    size = tuple((int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", row.workload))
    group = (row.project, row.machine, row.environment, row.kernel, row.benchmark)
    return (*group, size, row.is_baseline, row.implementation != "warpwatch", row.implementation)


def _newest_by_machine(items: Iterable[Latest], commits: dict[int, Commit]) -> dict[str, Commit]:
    newest: dict[str, Commit] = {}
    for item in items:
        commit = commits[item.summary.commit_id]
        if item.series.machine not in newest or commit.position > newest[item.series.machine].position:
            newest[item.series.machine] = commit
    return newest


def _row(item: Latest, commit: Commit, backend_of: dict[tuple[int, str, str, str], str | None]) -> ReportRow:
    series, summary, workload = item.series, item.summary, item.workload
    latency_s = summary.value
    parameters = ", ".join(value for name, value in series.parameters if name != "implementation")
    return ReportRow(
        project=series.project,
        machine=series.machine,
        environment=series.environment,
        commit=commit,
        kernel=kernel_of(series, workload),
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
        backend=backend_of.get((summary.run_id, series.suite, series.workload or "", series.implementation or "")),
    )
