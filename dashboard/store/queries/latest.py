"""Newest value of every series, with baselines of the same run and the share of the speed of light."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from ...model.machine import HardwareLimits, speed_of_light
from ...model.overview import BaselineRatio
from ...model.series import Series, SpeedOfLight, Status, Workload, workload_of
from ...model.verdict import Verdict
from .. import schema
from ..mappers import Workloads, limits_of, moment, select_series, series_record
from ..statements import STATUS_CODES, STATUS_OF_CODE, id_in
from .regressions import below_limits

_CHANGED = {Verdict.REGRESSED.value, Verdict.IMPROVED.value}
_OK = STATUS_CODES[Status.OK]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """A series with its summary, baselines and speed of light."""

    series: Series
    workload: Workload | None
    operator: str | None
    status: Status
    verdict: Verdict
    summary: Row[Any]  # of the summary table, with kind and q-value of the step of its change
    limits: HardwareLimits  # of the GPU that ran
    speed_of_light: SpeedOfLight | None
    ratios: tuple[BaselineRatio, ...]  # to each baseline of the same run; the fastest first

    @property
    def newest_run(self) -> Any:
        return moment(self.summary.run_started_ms)


def latest(connection: Connection, known: Workloads, *where: Any) -> list[Latest]:
    """Analysed series under the conditions, by machine, operator, benchmark and parameters."""
    summary, step = schema.summary, schema.changepoint
    columns = [column for column in summary.c if column.name not in {"series_id", "gpu_ratios"}]
    rows = connection.execute(
        select_series(
            *columns,
            schema.run.c.started_ms.label("run_started_ms"),
            schema.run.c.name.label("run_name"),
            schema.run.c.gpu,
            step.c.kind.label("change_kind"),
            step.c.q_value.label("change_q"),
            step.c.is_across_gpus,
            step.c.gpus,
        )
        .join(summary, summary.c.series_id == schema.series.c.id)
        .outerjoin(
            step,
            summary.c.change_is_step
            & (step.c.series_id == summary.c.series_id)
            & (step.c.commit_id == summary.c.change_commit_id),
        )
        .join(schema.run, schema.run.c.id == summary.c.run_id)
        .where(*where)
    ).all()
    rivals: dict[tuple[Any, ...], list[tuple[Series, Row[Any]]]] = {}
    pairs = [(series_record(row, known), row) for row in rows]
    for series, row in pairs:
        if series.is_baseline and row.status == _OK and row.value is not None:
            rivals.setdefault(_same_run(series, row), []).append((series, row))
    limits = _limits(connection, rows)
    verdicts = verdicts_within_limits(connection, known, rows)
    items = [_latest(series, row, verdicts[row.id], known, rivals, limits[row.run_id]) for series, row in pairs]
    items.sort(key=_order)
    return items


def verdicts_within_limits(connection: Connection, known: Workloads, rows: Sequence[Any]) -> Mapping[int, Verdict]:
    """Verdicts by series id, of rows of series and summary; a step below the project's thresholds is no change."""
    changed: dict[int, list[int]] = {}
    for row in rows:
        if row.verdict in _CHANGED:
            changed.setdefault(row.project_id, []).append(row.id)
    below = {step for owner, series in changed.items() for step in below_limits(connection, owner, known, series)}
    return {
        row.id: Verdict.UNCHANGED
        if row.verdict in _CHANGED and (row.id, row.change_commit_id) in below
        else Verdict(row.verdict)
        for row in rows
    }


def _limits(connection: Connection, rows: Sequence[Row[Any]]) -> Mapping[int, HardwareLimits]:
    """Peaks and ceilings of each run's GPU, by run id; the machine's newest ones if the run has none.

    Several GPUs may measure under one machine name, and their ceilings differ by some per cent.
    """
    run = schema.run
    runs = connection.execute(
        select(run.c.id, run.c.context).where(id_in(connection, run.c.id, {row.run_id for row in rows}))
    )
    own = {row.id: limits_of(row.context) for row in runs}
    machine = schema.machine
    machines = connection.execute(
        select(machine.c.id, machine.c.context).where(id_in(connection, machine.c.id, {row.machine_id for row in rows}))
    )
    of_machine = {row.id: limits_of(row.context) for row in machines}
    limits: dict[int, HardwareLimits] = {}
    for row in rows:
        if row.run_id not in limits:
            mine, newest = own[row.run_id], of_machine[row.machine_id]
            limits[row.run_id] = HardwareLimits(
                peaks=mine.peaks or newest.peaks, measured=mine.measured or newest.measured
            )
    return limits


def _same_run(series: Series, row: Row[Any]) -> tuple[Any, ...]:
    return (series.benchmark, series.case, series.machine, series.environment, row.commit_id, row.run_id)


def _order(item: Latest) -> tuple[Any, ...]:
    series = item.series
    return (
        series.machine,
        item.operator or "",
        series.benchmark,
        not series.is_ours,
        series.parameters,
        series.environment,
    )


def _latest(
    series: Series,
    row: Row[Any],
    verdict: Verdict,
    known: Workloads,
    rivals: Mapping[tuple[Any, ...], Sequence[tuple[Series, Row[Any]]]],
    limits: HardwareLimits,
) -> Latest:
    workload = workload_of(series, known)
    timed = series.metric.is_time and row.value
    ratios = [
        BaselineRatio(implementation=rival.implementation or "", ratio=other.value / row.value, series_key=rival.key)
        for rival, other in (rivals.get(_same_run(series, row), ()) if timed and row.status == _OK else ())
        if rival.key != series.key
    ]
    light = None
    if series.metric.is_latency and row.value and workload is not None:
        light = speed_of_light(workload, limits, row.value)
    return Latest(
        series=series,
        workload=workload,
        operator=known.operator(series.suite, series.workload),
        status=STATUS_OF_CODE[row.status],
        verdict=verdict,
        summary=row,
        limits=limits,
        speed_of_light=light,
        ratios=tuple(sorted(ratios, key=lambda ratio: ratio.ratio)),
    )


def backends(connection: Connection, run_ids: Sequence[int]) -> dict[tuple[int, str, str, str], str | None]:
    """PyTorch's recorded backend by run, suite, workload and implementation."""
    table = schema.detail
    rows = connection.execute(select(table).where(table.c.run_id.in_(run_ids)))
    return {(r.run_id, r.suite, r.workload, r.implementation): r.data.get("backend") for r in rows}
