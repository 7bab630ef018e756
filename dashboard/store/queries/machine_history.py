"""A machine's judged times at the project's newest commits, in columns: what tells how far it can be trusted."""

import re
from collections import Counter
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.calendar import Calendar, calendar
from warpwatch.dashboard.store.columns import Columns
from warpwatch.dashboard.store.machine_history import MachineHistory, Outcome, SeriesRuns
from warpwatch.dashboard.store.points import batches
from warpwatch.dashboard.store.project_points import points_of_series, project_points
from warpwatch.dashboard.store.queries.codes import codes
from warpwatch.dashboard.store.queries.series_places import series_places
from warpwatch.dashboard.store.reading import project_id
from warpwatch.dashboard.store.records import Status
from warpwatch.dashboard.store.rows import STATUS_CODES, STATUS_OF_CODE
from warpwatch.dashboard.store.store import Store

COMMITS = 100  # of the project's newest: as many as a check takes its noise from
_SERIES_AT_ONCE = 500  # whose points are in memory where those of the project are not held
_OK = STATUS_CODES[Status.OK]
_NUMBERS = re.compile(r"(?<![A-Za-z_.])[0-9][0-9a-f.+-]*")


def machine_history(store: Store, project: str, machine: str) -> MachineHistory | None:
    """Listed series alone; None if there is no such machine."""
    run = tables.run
    held, places = project_points(store, project), series_places(store, project)
    with store.read() as connection:
        owner = project_id(connection, project)
        number = connection.execute(
            select(tables.machine.c.id).where(tables.machine.c.project_id == owner, tables.machine.c.name == machine)
        ).scalar()
        if owner is None or number is None:
            return None
        mine = {
            each: place
            for each, place in places.items()
            if place.series.machine == machine and place.series.listed
            and place.series.metric.is_judged and place.series.metric.is_time
        }  # fmt: skip
        whole = held.calendar if held is not None else calendar(connection, owner)
        newest = _newest(whole)
        measured = set(connection.execute(select(run.c.commit_id).where(run.c.machine_id == number)).scalars())
        code_of = codes(connection, owner, newest & measured)
        found: list[SeriesRuns] = []
        outcomes: Counter[tuple[Status, str]] = Counter()
        for some in batches(list(mine), _SERIES_AT_ONCE):
            points = held if held is not None else points_of_series(connection, whole, some)
            is_new = points.at(newest)
            for each in some:
                if (its := points.of(each)) is not None:
                    at = its.start + np.flatnonzero(is_new[its])
                    columns = points.points.take(at)
                    outcomes.update(_outcomes(columns))
                    found.append(_runs(mine[each].series, columns, whole, code_of.get(mine[each].code, {})))
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
