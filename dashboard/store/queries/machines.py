"""A machine over time: canaries, conditions and software of runs, and series in columns."""

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from ...model.machine import Canary, Visit
from ...model.metric import Metric
from ...model.metric import metric as metric_of
from ...model.naming import gpu_name, software_version
from ...model.series import Status
from .. import schema
from ..chunks import Columns
from ..column_records import MachineHistory, ReasonCount, RunConditions, SeriesRuns, Software
from ..commit_index import CommitIndex, read_commit_index
from ..engine import Store, cached
from ..finding_records import changes_of
from ..mappers import moment, project_id, select_series, workloads
from ..points import batches
from ..project_points import points_of_series
from ..statements import STATUS_CODES, STATUS_OF_CODE, id_in
from .latest import Latest, latest
from .machine_code import codes
from .series_list import IndexedSeries, indexed_series


@cached()
def canaries(store: Store, project: str) -> dict[str, tuple[Canary, ...]]:
    """Canaries by machine, each with its last change and the visits of its newest run."""
    series = schema.series
    with store.read() as connection:
        owner = project_id(connection, project)
        known = workloads(connection, owner)
        if not known.controls:
            return {}
        implementations = {implementation for _, implementation in known.controls}
        items = latest(
            connection,
            known,
            series.c.project_id == owner,
            series.c.metric == "latency",
            series.c.implementation.in_(implementations),
        )
        # Only the canaries of a machine's own device ever have a number.
        items = [
            item for item in items if item.series.is_control and any(x is not None for x in item.summary.sparkline)
        ]
        keys = [item.series.key for item in items]
        rows = connection.execute(select(series.c.key, series.c.id).where(series.c.key.in_(keys)))
        id_of = {row.key: row.id for row in rows}
        changes = changes_of(connection, list(id_of.values()))
        canaries_of: dict[str, list[Canary]] = {}
        for item in items:
            own_changes = changes.get(id_of[item.series.key], ())
            canaries_of.setdefault(item.series.machine, []).append(
                Canary(
                    series=item.series,
                    value=item.summary.value,
                    sparkline=tuple(item.summary.sparkline),
                    last_change=own_changes[-1] if own_changes else None,
                    run_time=item.newest_run,
                    visits=_visits(connection, item),
                )
            )
    return {machine: tuple(each) for machine, each in canaries_of.items()}


def _visits(connection: Connection, item: Latest) -> tuple[Visit, ...]:
    detail, series = schema.detail, item.series
    data: dict[str, Any] | None = connection.execute(
        select(detail.c.data).where(
            detail.c.run_id == item.summary.run_id,
            detail.c.suite == series.suite,
            detail.c.workload == series.workload,
            detail.c.implementation == series.implementation,
        )
    ).scalar()
    return tuple(Visit(at_s=visit["at_s"], latency_s=visit["latency_s"]) for visit in (data or {}).get("visits") or ())


_RUNS = 100  # newest runs with measurements
_MOVING = ("driver", "cuda", "torch", "cudnn", "triton", "nvbench")
_SOFTWARE = ("cuda", "torch", "cudnn", "triton", "nvbench", "python")
# NVML's reasons of a clock below the requested one, without idle and without clocks set by a user.
_THROTTLING = 0x04 | 0x08 | 0x10 | 0x20 | 0x40 | 0x80


def conditions(store: Store, project: str, machine: str) -> tuple[RunConditions, ...]:
    """The newest runs with measurements and a context, by time."""
    run, detail = schema.run, schema.detail
    with store.read() as connection:
        rows = connection.execute(
            _of_machine(connection, project, machine)
            .where(run.c.id.in_(select(detail.c.run_id)))
            .order_by(run.c.started_ms.desc(), run.c.id.desc())
            .limit(_RUNS)
        ).all()
        noted: dict[int, list[Mapping[str, Any]]] = {}
        chosen = select(detail.c.run_id, detail.c.data).where(
            id_in(connection, detail.c.run_id, [row.id for row in rows])
        )
        for number, data in connection.execute(chosen):
            noted.setdefault(number, []).append(data)
    return tuple(_conditions(row, noted.get(row.id, ())) for row in reversed(rows))


def software(store: Store, project: str, machine: str) -> tuple[Software, ...]:
    """Consecutive runs with equal facts, the newest first; runs without facts are left out."""
    run = schema.run
    with store.read() as connection:
        rows = connection.execute(
            _of_machine(connection, project, machine)
            .where(run.c.context.is_not(None))
            .order_by(run.c.started_ms, run.c.id)
        ).all()
    runs = [(row, facts) for row in rows if (facts := _facts(row)) is not None]
    periods: list[Software] = []
    for facts, group in itertools.groupby(runs, key=lambda pair: pair[1]):
        period = [row for row, _ in group]
        before = dict(periods[-1].facts) if periods else dict(facts)
        periods.append(
            Software(
                since=moment(period[0].started_ms),
                until=moment(period[-1].started_ms),
                runs=len(period),
                facts=facts,
                changed=tuple(name for name, value in facts if before.get(name) != value),
            )
        )
    return tuple(reversed(periods))


def commit_software(store: Store, project: str, machine: str) -> Mapping[int, tuple[tuple[str, str], ...]]:
    """Software that affects latencies, by commit id: driver, libraries and harness of the newest run."""
    with store.read() as connection:
        run = schema.run
        rows = connection.execute(
            _of_machine(connection, project, machine)
            .add_columns(run.c.commit_id)
            .where(run.c.context.is_not(None))
            .order_by(run.c.started_ms, run.c.id)
        ).all()
    found: dict[int, tuple[tuple[str, str], ...]] = {}
    for row in rows:
        if (facts := _facts(row)) is not None:
            suite = ("suite", str(row.context.get("suite_sha256") or "")[:8])
            found[row.commit_id] = (*(fact for fact in facts if fact[0] in _MOVING), suite)
    return found


def _of_machine(connection: Connection, project: str, machine: str) -> Any:
    run = schema.run
    return (
        select(run.c.id, run.c.name, run.c.started_ms, run.c.gpu, run.c.context)
        .join(schema.machine, schema.machine.c.id == run.c.machine_id)
        .where(run.c.project_id == project_id(connection, project), schema.machine.c.name == machine)
    )


def _facts(row: Any) -> tuple[tuple[str, str], ...] | None:
    gpu, versions = row.context.get("gpu") or {}, row.context.get("software") or {}
    if not gpu:
        return None  # it only compiled
    limit = gpu.get("power_limit_w")
    return (
        ("card", gpu_name(row.gpu) if row.gpu else ""),
        ("driver", str(gpu.get("driver") or "")),
        *((name, software_version(name, str(versions.get(name) or ""))) for name in _SOFTWARE),
        ("power limit", f"{limit:g} W" if limit else ""),
    )


def _conditions(row: Any, noted: Sequence[Mapping[str, Any]]) -> RunConditions:
    clocks = [median(clock) for data in noted if (clock := data.get("sm_clock_hz"))]
    temperatures = [heat for data in noted if (heat := data.get("temperature_c")) is not None]
    throttled: Counter[str] = Counter()
    for data in noted:
        throttled.update(data.get("throttled_s") or {})
    return RunConditions(
        run=row.name,
        started_at=moment(row.started_ms),
        gpu=row.gpu,
        measurements=len(noted),
        clock_hz=median(clocks) if clocks else None,
        clock_low_hz=min(clocks, default=None),
        clock_high_hz=max(clocks, default=None),
        temperature_c=median(temperatures) if temperatures else None,
        temperature_high_c=max(temperatures, default=None),
        power_limit_w=((row.context or {}).get("gpu") or {}).get("power_limit_w"),
        throttled_s=dict(throttled),
        throttled=sum(map(_was_throttled, noted)),
        knows_throttling=any(data.get("clock_event_reasons") or data.get("throttled_s") for data in noted),
    )


def _was_throttled(data: Mapping[str, Any]) -> bool:
    bits = data.get("clock_event_reasons") or {}
    during = int(bits.get("before") or 0) | int(bits.get("after") or 0)
    return bool(during & _THROTTLING) or any(seconds > 0 for seconds in (data.get("throttled_s") or {}).values())


COMMITS = 100  # newest commits of the project, as many as for the noise of a check
_SERIES_AT_ONCE = 500
_SERIES_BYTES = 1500  # of a series' runs in memory
_OK = STATUS_CODES[Status.OK]
_NUMBERS = re.compile(r"(?<![A-Za-z_.])[0-9][0-9a-f.+-]*")


@cached(size=lambda history: _SERIES_BYTES * len(history.series) if history is not None else 0)
def machine_history(
    store: Store, project: str, machine: str, *, commits: int = COMMITS, sample: int | None = None
) -> MachineHistory | None:
    """A machine's listed, judged times at the project's newest commits; None for an unknown machine.

    `sample`: at most so many series, evenly chosen, for figures that need no more.
    """
    run = schema.run
    with store.read() as connection:
        owner = project_id(connection, project)
        number = connection.execute(
            select(schema.machine.c.id).where(schema.machine.c.project_id == owner, schema.machine.c.name == machine)
        ).scalar()
        if number is None:
            return None
        mine = _judged_times(connection, owner, number, sample)
        index = read_commit_index(connection, owner)
        newest = _newest(index, commits)
        measured = set(connection.execute(select(run.c.commit_id).where(run.c.machine_id == number)).scalars())
        code_of = codes(connection, owner, newest & measured, run.c.machine_id == number)
        runs: list[SeriesRuns] = []
        outcomes: Counter[tuple[Status, str]] = Counter()
        for batch in batches(list(mine), _SERIES_AT_ONCE):
            points = points_of_series(connection, index, batch)
            is_new = points.at(newest)
            for each in batch:
                if (own := points.of(each)) is not None:
                    at = own.start + np.flatnonzero(is_new[own])
                    columns = points.points.take(at)
                    outcomes.update(_outcomes(columns))
                    runs.append(_runs(mine[each].series, columns, index, code_of.get(mine[each].code, {})))
        unmeasured = _unmeasured(connection, owner)
    return MachineHistory(
        series=tuple(each for each in runs if len(each.value)),
        outcomes=tuple(
            ReasonCount(status=status, reason=reason, count=count) for (status, reason), count in outcomes.most_common()
        ),
        commits=len(newest),
        missing_commits=_missing(index, measured),
        unmeasured_commits=unmeasured,
        index=index,
    )


def judged_times(store: Store, project: str) -> Counter[str]:
    """Number of listed, judged times by machine."""
    series, machine = schema.series, schema.machine
    counts: Counter[str] = Counter()
    with store.read() as connection:
        rows = connection.execute(
            select(machine.c.name, series.c.metric, series.c.unit, func.count())
            .join_from(series, machine, machine.c.id == series.c.machine_id)
            .where(series.c.project_id == project_id(connection, project), series.c.listed)
            .group_by(machine.c.name, series.c.metric, series.c.unit)
        )
        for name, metric, unit, count in rows:
            counts[name] += count if _is_judged_time(metric_of(metric, unit)) else 0
    return counts


def _is_judged_time(metric: Metric) -> bool:
    return metric.is_judged and metric.is_time


def _judged_times(connection: Connection, owner: int, machine: int, sample: int | None) -> dict[int, IndexedSeries]:
    """The machine's listed, judged times, or a sample of them, by id, sorted by benchmark."""
    series = schema.series
    rows = connection.execute(
        select(series.c.id, series.c.metric, series.c.unit)
        .where(series.c.project_id == owner, series.c.machine_id == machine, series.c.listed)
        .order_by(series.c.key)  # a hash: in no order of benchmarks
    ).all()
    ids = [row.id for row in rows if _is_judged_time(metric_of(row.metric, row.unit))][:sample]
    known = workloads(connection, owner)
    chosen = connection.execute(select_series().where(id_in(connection, series.c.id, ids)))
    return {row.id: indexed_series(row, known) for row in sorted(chosen, key=lambda row: (row.benchmark_name, row.id))}


def _newest(index: CommitIndex, commits: int) -> set[int]:
    order = np.lexsort((index.date_ms, index.position))
    return set(index.commits[order][-commits:].tolist())


def _runs(series: Any, points: Columns, index: CommitIndex, code: dict[int, str]) -> SeriesRuns:
    points = points.take((points.status == _OK) & (points.value > 0))
    run = np.searchsorted(index.runs, points.run)
    return SeriesRuns(
        series=series,
        commit=points.commit,
        value=points.value,
        started_ms=index.started_ms[run],
        gpu=index.gpu[run],
        spread=points.q75 - points.q25,
        count=points.count,
        code=code,
    )


def _outcomes(points: Columns) -> Counter[tuple[Status, str]]:
    """Counts by status and reason; numbers in reasons are ignored."""
    counted: Counter[tuple[Status, str]] = Counter()
    is_ok = points.status == _OK
    counted[Status.OK, ""] = int(is_ok.sum())
    for status, reason in zip(points.status[~is_ok].tolist(), points.reason[~is_ok].tolist(), strict=True):
        text = _NUMBERS.sub("…", points.reasons[reason - 1]) if reason else ""
        counted[STATUS_OF_CODE[status], text] += 1
    return counted


def _missing(index: CommitIndex, measured: set[int]) -> int:
    """Number of commits with results between the machine's first and last commit that it did not measure."""
    is_ours = np.isin(index.commits, list(measured))
    positions = index.position[is_ours]
    if not len(positions):
        return 0
    between = (index.position > positions.min()) & (index.position < positions.max())
    return int((between & ~is_ours).sum())


def _unmeasured(connection: Connection, owner: int) -> int | None:
    commit = schema.commit
    query = select(func.sum(commit.c.unmeasured_before)).where(commit.c.project_id == owner)
    total = connection.execute(query).scalar()
    return None if total is None else int(total)
