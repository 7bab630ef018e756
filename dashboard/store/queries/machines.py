"""A machine over time: its canaries, the conditions of its runs, and its series in columns."""

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from ...model.machine import Canary, Visit
from ...model.naming import card_name, cudnn_version
from ...model.series import Status
from .. import schema
from ..chunks import Columns
from ..column_records import MachineHistory, Outcome, RunConditions, SeriesRuns, Software
from ..commit_index import Calendar, calendar
from ..engine import Store
from ..mappers import changes_of, moment, project_id, workloads
from ..points import batches
from ..project_points import points_of_series, project_points
from ..statements import STATUS_CODES, STATUS_OF_CODE, is_among
from .latest import Latest, latest
from .machine_code import codes
from .series_list import series_places


def canaries(store: Store, project: str) -> dict[str, tuple[Canary, ...]]:
    """By machine's name, each with its last change of level and the visits of its newest run."""
    return store.cached(project, "canaries", lambda: _canaries(store, project))


def _canaries(store: Store, project: str) -> dict[str, tuple[Canary, ...]]:
    series = schema.series
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return {}
        known = workloads(connection, owner)
        if not known.controls:
            return {}
        wanted = {implementation for _, implementation in known.controls}
        found = latest(
            connection,
            known,
            series.c.project_id == owner,
            series.c.metric == "latency",
            series.c.implementation.in_(wanted),
        )
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


# What a machine's runs noted of their GPU and software, run by run.

_RUNS = 100  # with measurements, the newest
_MOVING = ("driver", "cuda", "torch", "cudnn", "triton", "nvbench")
_SOFTWARE = ("cuda", "torch", "cudnn", "triton", "nvbench", "python")
# NVML's bits under which the clock is lower than asked for; idle and clocks that somebody set are not among them.
_THROTTLING = 0x04 | 0x08 | 0x10 | 0x20 | 0x40 | 0x80


def conditions(store: Store, project: str, machine: str) -> tuple[RunConditions, ...]:
    """The newest runs that measured something and left a context, in the order of time."""
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
            is_among(connection, detail.c.run_id, [row.id for row in rows])
        )
        for number, data in connection.execute(chosen):
            noted.setdefault(number, []).append(data)
    return tuple(_conditions(row, noted.get(row.id, ())) for row in reversed(rows))


def software(store: Store, project: str, machine: str) -> tuple[Software, ...]:
    """Stretches of runs with equal facts, the newest first; runs that say nothing of themselves are left out."""
    run = schema.run
    with store.read() as connection:
        rows = connection.execute(
            _of_machine(connection, project, machine)
            .where(run.c.context.is_not(None))
            .order_by(run.c.started_ms, run.c.id)
        ).all()
    told = [(row, facts) for row in rows if (facts := _facts(row)) is not None]
    found: list[Software] = []
    for facts, group in itertools.groupby(told, key=lambda pair: pair[1]):
        its = [row for row, _ in group]
        before = dict(found[-1].facts) if found else dict(facts)
        found.append(
            Software(
                since=moment(its[0].started_ms),
                until=moment(its[-1].started_ms),
                runs=len(its),
                facts=facts,
                changed=tuple(name for name, value in facts if before.get(name) != value),
            )
        )
    return tuple(reversed(found))


def commit_software(store: Store, project: str, machine: str) -> Mapping[int, tuple[tuple[str, str], ...]]:
    """What moves latencies beside GPU and code, by commit's id: driver, libraries and harness of its newest run."""
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
        select(run.c.id, run.c.name, run.c.started_ms, run.c.card, run.c.context)
        .join(schema.machine, schema.machine.c.id == run.c.machine_id)
        .where(run.c.project_id == project_id(connection, project), schema.machine.c.name == machine)
    )


def _facts(row: Any) -> tuple[tuple[str, str], ...] | None:
    gpu, said = row.context.get("gpu") or {}, row.context.get("software") or {}
    if not gpu:
        return None  # it only compiled
    limit = gpu.get("power_limit_w")
    return (
        ("card", card_name(row.card) if row.card else ""),
        ("driver", str(gpu.get("driver") or "")),
        *((name, _version(name, str(said.get(name) or ""))) for name in _SOFTWARE),
        ("power limit", f"{limit:g} W" if limit else ""),
    )


def _version(name: str, said: str) -> str:
    return cudnn_version(said) if name == "cudnn" else said


def _conditions(row: Any, noted: Sequence[Mapping[str, Any]]) -> RunConditions:
    clocks = [median(clock) for data in noted if (clock := data.get("sm_clock_hz"))]
    temperatures = [heat for data in noted if (heat := data.get("temperature_c")) is not None]
    throttled: Counter[str] = Counter()
    for data in noted:
        throttled.update(data.get("throttled_s") or {})
    return RunConditions(
        run=row.name,
        started_at=moment(row.started_ms),
        card=row.card,
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
    seen = int(bits.get("before") or 0) | int(bits.get("after") or 0)
    return bool(seen & _THROTTLING) or any(seconds > 0 for seconds in (data.get("throttled_s") or {}).values())


# A machine's judged times at the project's newest commits, in columns: what tells how far it can be trusted.

COMMITS = 100  # of the project's newest: as many as a check takes its noise from
_SERIES_AT_ONCE = 500  # whose points are in memory where those of the project are not held
_OK = STATUS_CODES[Status.OK]
_NUMBERS = re.compile(r"(?<![A-Za-z_.])[0-9][0-9a-f.+-]*")


def machine_history(store: Store, project: str, machine: str) -> MachineHistory | None:
    """Listed series alone; None if there is no such machine."""
    run = schema.run
    held, places = project_points(store, project), series_places(store, project)
    with store.read() as connection:
        owner = project_id(connection, project)
        number = connection.execute(
            select(schema.machine.c.id).where(schema.machine.c.project_id == owner, schema.machine.c.name == machine)
        ).scalar()
        if owner is None or number is None:
            return None
        mine = {
            each: place
            for each, place in places.items()
            if place.series.machine == machine
            and place.series.listed
            and place.series.metric.is_judged
            and place.series.metric.is_time
        }
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
            Outcome(status=status, reason=reason, count=count) for (status, reason), count in outcomes.most_common()
        ),
        commits=len(newest),
        missing_commits=_missing(whole, measured),
        unmeasured_commits=unmeasured,
    )


def _newest(whole: Calendar) -> set[int]:
    order = np.lexsort((whole.date_ms, whole.position))
    return set(whole.commits[order][-COMMITS:].tolist())


def _runs(series: Any, points: Columns, whole: Calendar, code: dict[int, str]) -> SeriesRuns:
    points = points.take((points.status == _OK) & (points.value > 0))
    run = np.searchsorted(whole.runs, points.run)
    return SeriesRuns(
        series=series,
        commit=points.commit,
        value=points.value,
        started_ms=whole.started_ms[run],
        card=whole.card[run],
        spread=points.q75 - points.q25,
        count=points.count,
        code=code,
    )


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
    commit = schema.commit
    query = select(func.sum(commit.c.unmeasured_before)).where(commit.c.project_id == owner)
    total = connection.execute(query).scalar()
    return None if total is None else int(total)
