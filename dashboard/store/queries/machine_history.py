"""A machine's judged times at the project's newest commits, in columns: what tells how far it can be trusted."""

import re
from collections import Counter
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from warpwatch.dashboard.metrics import metric
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.calendar import Calendar, calendar
from warpwatch.dashboard.store.columns import Columns
from warpwatch.dashboard.store.machine_history import MachineHistory, Outcome, SeriesRuns
from warpwatch.dashboard.store.points import batches, read_points
from warpwatch.dashboard.store.queries.codes import CodePlace, codes
from warpwatch.dashboard.store.reading import project_id, select_series, series_record, workloads
from warpwatch.dashboard.store.records import Status
from warpwatch.dashboard.store.rows import STATUS_CODES, STATUS_OF_CODE
from warpwatch.dashboard.store.store import Store

COMMITS = 100  # of the project's newest: as many as a check takes its noise from
_OK = STATUS_CODES[Status.OK]
_NUMBERS = re.compile(r"(?<![A-Za-z_.])[0-9][0-9a-f.+-]*")


def machine_history(store: Store, project: str, machine: str) -> MachineHistory | None:
    """Listed series alone; None if there is no such machine."""
    series, run = tables.series, tables.run
    with store.read() as connection:
        owner = project_id(connection, project)
        number = connection.execute(
            select(tables.machine.c.id).where(tables.machine.c.project_id == owner, tables.machine.c.name == machine)
        ).scalar()
        if owner is None or number is None:
            return None
        rows = [
            row
            for row in connection.execute(select_series().where(series.c.machine_id == number, series.c.listed))
            if (kind := metric(row.metric, row.unit)).is_judged and kind.is_time
        ]
        known, whole = workloads(connection, owner), calendar(connection, owner)
        newest = _newest(whole)
        measured = set(connection.execute(select(run.c.commit_id).where(run.c.machine_id == number)).scalars())
        code_of = codes(connection, owner, newest & measured)
        found: list[SeriesRuns] = []
        outcomes: Counter[tuple[Status, str]] = Counter()
        for some in batches(rows, 500):
            points = read_points(connection, [row.id for row in some])
            for row in some:
                if row.id in points:
                    its = _ordered(points[row.id], whole, newest)
                    outcomes.update(_outcomes(its))
                    found.append(_runs(series_record(row, known), its, whole, code_of.get(_place(row), {})))
        unmeasured = _unmeasured(connection, owner)
    return MachineHistory(
        series=tuple(each for each in found if len(each.value)),
        outcomes=tuple(
            Outcome(status=status, reason=reason, count=count)
            for (status, reason), count in outcomes.most_common()
        ),
        commits=len(newest),
        missing_commits=_missing(whole, measured),
        unmeasured_commits=unmeasured,
    )  # fmt: skip


def _newest(whole: Calendar) -> set[int]:
    order = np.lexsort((whole.date_ms, whole.position))
    return set(whole.commits[order][-COMMITS:].tolist())


def _ordered(points: Columns, whole: Calendar, newest: set[int]) -> Columns:
    """The points of the newest commits, by commit, then by run."""
    points = points.take(whole.order(points))
    return points.take(np.isin(points.commit, list(newest)))


def _runs(series: Any, points: Columns, whole: Calendar, code: dict[int, str]) -> SeriesRuns:
    points = points.take((points.status == _OK) & (points.value > 0))
    run = np.searchsorted(whole.runs, points.run)
    return SeriesRuns(
        series=series, commit=points.commit, value=points.value, started_ms=whole.started_ms[run],
        card=whole.card[run], spread=points.q75 - points.q25, count=points.count, code=code,
    )  # fmt: skip


def _outcomes(points: Columns) -> Counter[tuple[Status, str]]:
    """By status and reason; numbers in reasons aside, as each has its own."""
    counted: Counter[tuple[Status, str]] = Counter()
    is_ok = points.status == _OK
    counted[Status.OK, ""] = int(is_ok.sum())
    for status, reason in zip(points.status[~is_ok].tolist(), points.reason[~is_ok].tolist(), strict=True):
        said = _NUMBERS.sub("…", points.reasons[reason - 1]) if reason else ""
        counted[STATUS_OF_CODE[status], said] += 1
    return counted


def _place(row: Any) -> CodePlace:
    return CodePlace(
        machine_id=row.machine_id, environment_id=row.environment_id, suite=row.benchmark_name.rpartition(".")[0],
        workload=row.workload or "", implementation=row.implementation or "",
    )  # fmt: skip


def _missing(whole: Calendar, measured: set[int]) -> int:
    """The commits with results between the machine's first and last that it has none of."""
    is_ours = np.isin(whole.commits, list(measured))
    places = whole.position[is_ours]
    if not len(places):
        return 0
    between = (whole.position > places.min()) & (whole.position < places.max())
    return int((between & ~is_ours).sum())


def _unmeasured(connection: Connection, owner: int) -> int | None:
    commit = tables.commit
    query = select(func.sum(commit.c.unmeasured_before)).where(commit.c.project_id == owner)
    total = connection.execute(query).scalar()
    return None if total is None else int(total)
