"""Classification of a machine's findings: its changes and controls out, the verdict on each back in."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, bindparam, select, update

from ..model.machine import HardwareLimits, bound_by_memory
from ..model.metric import Better, Metric, Role, metric
from ..model.verdict import ChangeKind, Control, Verdict
from ..statistics.detection import ANALYSIS_VERSION
from ..statistics.machine_attribution import Floats, Ints, Shift
from . import schema
from .chunks import decode_all
from .commit_index import Calendar, calendar
from .engine import Store
from .mappers import Workloads, limits_of, workloads
from .points import read_stretches
from .statements import is_among, update_each

# What was said of a change when the findings of its machine were judged together, and what it says until then.
#
# A series that is analysed anew keeps what was said of those of its changes that stand at the same commits. A new
# change is nobody's yet: it might be the machine's, so no page, report or alert calls it a regression before it is
# judged.

SAID = ("kind", "control", "control_share", "control_share_low", "control_share_high", "q_value")
NOTHING_SAID: Mapping[str, Any] = {**dict.fromkeys(SAID), "kind": ChangeKind.UNJUDGED.value}

Judgements = Mapping[tuple[int, int], Mapping[str, Any]]  # by the ids of series and commit


def judgements(connection: Connection, series: Collection[int]) -> Judgements:
    """What is said of the changes of these series."""
    table = schema.changepoint
    rows = connection.execute(
        select(table.c.series_id, table.c.commit_id, *(table.c[name] for name in SAID)).where(
            is_among(connection, table.c.series_id, series)
        )
    )
    return {(row.series_id, row.commit_id): dict(zip(SAID, row[2:], strict=True)) for row in rows}


def verdict_of(kind: str, is_worse: bool) -> Verdict:
    """The verdict on a series whose last step is of a kind: a level that the machine moved has not changed.

    Of what is not judged yet, or may be chance, nothing can be told.
    """
    if kind in {ChangeKind.UNJUDGED.value, ChangeKind.MAY_BE_CHANCE.value}:
        return Verdict.INCONCLUSIVE
    if kind == ChangeKind.MACHINE_STATE.value:
        return Verdict.UNCHANGED
    return Verdict.REGRESSED if is_worse else Verdict.IMPROVED


# A machine's findings as they are judged together: its changes and its controls out, what that says of each back in.
#
# A machine counts its findings up in the transaction that changes one, and notes which it was judged with: whatever
# ends a process in between, the next one sees that there is something to do.

_MOST_CONTROLS = 60  # of baselines, or of other series, that are read


@dataclass(frozen=True, slots=True, kw_only=True)
class UnjudgedMachine:
    """A machine whose findings have changed since they were judged."""

    id: int
    project_id: int
    project: str


class FoundSeries(NamedTuple):
    """What the judgement asks of a series."""

    id: int
    environment: int
    is_listed: bool  # still measured, as far as the suite says
    suite: str
    family: str | None  # of times that scatter alike; None for what a machine's state is not in
    sign: int  # -1 for a rate, which goes down where its time goes up
    memory_bound: bool | None  # None: not known
    control: Control | None  # what it would speak for the machine as
    is_canary: bool
    is_ours: bool  # and judged: a commit may be accused of it
    is_exact: bool  # has no noise, so that no change is chance


class FoundChange(NamedTuple):
    """A changepoint, its commits as places in the project's order, and what was last said of it."""

    series: FoundSeries
    commit_id: int
    place: int  # of the first commit of the new level
    range_start: int
    range_end: int
    magnitude: float
    low: float
    high: float
    chance: float
    said: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ControlLevels:
    """Logarithms of controls on one card: a row for each control, a column for each commit, NaN where there is none."""

    places: Ints  # of the commits in the project's order
    controls: tuple[FoundSeries, ...]
    levels: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MachineFindings:
    """All that is judged together. `controls` are by environment, noise family and card."""

    machine: UnjudgedMachine
    findings: int
    families: Mapping[int, int]  # by environment, the listed series that the false discovery rate counts
    changes: tuple[FoundChange, ...]
    controls: dict[tuple[int, str], tuple[ControlLevels, ...]]


class Judgement(NamedTuple):
    """What is said of a change."""

    change: FoundChange
    kind: ChangeKind
    control: Control | None
    share: Shift | None
    q_value: float | None

    @property
    def said(self) -> tuple[Any, ...]:
        """As it is stored."""
        share = (self.share.value, self.share.ci_low, self.share.ci_high) if self.share else (None, None, None)
        return (self.kind.value, self.control.value if self.control else None, *share, self.q_value)


def unjudged_machines(store: Store, only: str | None) -> tuple[UnjudgedMachine, ...]:
    """Those of one project, or of all, but of none that another version of this code analyses by now."""
    machine, project = schema.machine, schema.project
    query = (
        select(machine.c.id, machine.c.project_id, project.c.name)
        .join(project, project.c.id == machine.c.project_id)
        .where(machine.c.findings != machine.c.judged, project.c.analysis_version == ANALYSIS_VERSION)
        .order_by(machine.c.id)
    )
    with store.read() as connection:
        rows = connection.execute(query if only is None else query.where(project.c.name == only))
        return tuple(UnjudgedMachine(id=row.id, project_id=row.project_id, project=row.name) for row in rows)


def read_findings(store: Store, machine: UnjudgedMachine) -> MachineFindings | None:
    """Everything in one state of the store; None if the machine is judged, or gone."""
    with store.read() as connection:
        table = schema.machine
        row = connection.execute(
            select(table.c.findings, table.c.judged, table.c.context).where(table.c.id == machine.id)
        ).one_or_none()
        if row is None or row.findings == row.judged:
            return None
        known = workloads(connection, machine.project_id)
        series = _series(connection, machine.id, known, limits_of(row.context))
        whole = calendar(connection, machine.project_id)
        changes = _changes(connection, machine.id, series, whole)
        asked = {(one.series.environment, one.series.family) for one in changes if one.series.family is not None}
        return MachineFindings(
            machine=machine,
            findings=row.findings,
            families=Counter(
                one.environment for one in series.values() if one.is_listed and one.is_ours and not one.is_exact
            ),
            changes=changes,
            controls={
                place: _controls(connection, _speakers(series.values(), place), whole) for place in sorted(asked)
            },
        )


def write_judgement(store: Store, findings: MachineFindings, judgements: Sequence[Judgement]) -> bool:
    """Writes what is new of it, and what follows for the series in short. False if the findings have changed since."""
    table, change, summary = schema.machine, schema.changepoint, schema.summary
    with store.write(findings.machine.project, of_project=True) as connection:
        done = connection.execute(
            update(table)
            .where(table.c.id == findings.machine.id, table.c.findings == findings.findings)
            .values(judged=findings.findings)
        )
        if not done.rowcount:
            return False
        new = [each for each in judgements if each.said != each.change.said]
        if new:
            its = (change.c.series_id == bindparam("its_series")) & (change.c.commit_id == bindparam("its_commit"))
            update_each(connection, change, update(change).where(its), [_said_row(each) for each in new])
        behind = (change.c.series_id == summary.c.series_id) & (change.c.commit_id == summary.c.change_commit_id)
        rows = connection.execute(
            select(summary.c.series_id, summary.c.verdict, change.c.kind, change.c.is_worse)
            .join(change, behind)
            .join(schema.series, schema.series.c.id == summary.c.series_id)
            .where(
                schema.series.c.machine_id == findings.machine.id,
                summary.c.change_is_step,
                summary.c.value.is_not(None),
            )
        ).all()
        verdicts = [(row.series_id, verdict_of(row.kind, row.is_worse), row.verdict) for row in rows]
        moved = [
            {"its_series": number, "verdict": now.value} for number, now, before in verdicts if now.value != before
        ]
        if moved:
            connection.execute(update(summary).where(summary.c.series_id == bindparam("its_series")), moved)
    return True


def _said_row(judgement: Judgement) -> dict[str, Any]:
    its = {"its_series": judgement.change.series.id, "its_commit": judgement.change.commit_id}
    return {**its, **dict(zip(SAID, judgement.said, strict=True))}


def _series(connection: Connection, machine: int, known: Workloads, limits: HardwareLimits) -> dict[int, FoundSeries]:
    series = schema.series
    rows = connection.execute(
        select(
            series.c.id,
            series.c.environment_id,
            series.c.listed,
            schema.benchmark.c.name,
            series.c.metric,
            series.c.unit,
            series.c.workload,
            series.c.implementation,
        )
        .join(schema.benchmark, schema.benchmark.c.id == series.c.benchmark_id)
        .where(series.c.machine_id == machine)
        .order_by(series.c.key)
    ).all()
    speaks_for_itself = not known.controls and not any(each.baselines for each in known.values())
    facts = cache(partial(_facts, known, limits, speaks_for_itself))  # the same of many series
    return {
        number: FoundSeries(number, environment, listed, *facts(*its)) for number, environment, listed, *its in rows
    }


def _facts(
    known: Workloads,
    limits: HardwareLimits,
    no_controls: bool,
    benchmark: str,
    metric_name: str,
    unit: str,
    workload_name: str | None,
    implementation: str | None,
) -> tuple[Any, ...]:
    """What a FoundSeries has from its suite on."""
    suite, its_metric = benchmark.rpartition(".")[0], metric(metric_name, unit)
    is_canary, is_rival = known.is_control(suite, implementation), known.is_rival(suite, implementation)
    family, sign = _follows(its_metric)
    speaks_as = Control.CANARIES if is_canary else Control.BASELINES if is_rival else Control.OTHERS
    may_speak = family == "latency" and sign > 0 and its_metric.is_judged and (is_canary or is_rival or no_controls)
    workload = known.get((suite, workload_name or ""))
    memory_bound = bound_by_memory(workload, limits) if workload is not None else None
    is_ours = its_metric.is_judged and not is_canary and not is_rival
    control = speaks_as if may_speak else None
    return suite, family, sign, memory_bound, control, is_canary, is_ours, its_metric.is_exact


def _follows(its_metric: Metric) -> tuple[str | None, int]:
    """The family of times whose state is in a metric too, and which way it goes with them."""
    if its_metric.follows_machine:
        return its_metric.noise_family, 1
    is_rate = its_metric.role is Role.RESTATED and its_metric.better is Better.HIGHER
    return ("latency", -1) if is_rate else (None, 1)


def _changes(
    connection: Connection, machine: int, series: dict[int, FoundSeries], whole: Calendar
) -> tuple[FoundChange, ...]:
    table = schema.changepoint
    rows = connection.execute(
        select(
            table.c.series_id,
            table.c.commit_id,
            table.c.range_start_commit_id,
            table.c.range_end_commit_id,
            table.c.magnitude,
            table.c.low,
            table.c.high,
            table.c.chance,
            *(table.c[name] for name in SAID),
        )
        .join(schema.series, schema.series.c.id == table.c.series_id)
        .where(schema.series.c.machine_id == machine)
    ).all()
    ids = np.array([row[1:4] for row in rows], dtype=np.int64).reshape(-1, 3)
    places = whole.position[np.searchsorted(whole.commits, ids)].tolist()
    return tuple(
        FoundChange(series[number], commit, place, start, end, magnitude, low, high, chance, tuple(said))
        for (number, commit, _, _, magnitude, low, high, chance, *said), (place, start, end) in zip(
            rows, places, strict=True
        )
    )


def _speakers(series: Iterable[FoundSeries], place: tuple[int, str | None]) -> list[FoundSeries]:
    """The controls of an environment; of those that are many the first by key, which is as good as by lot."""
    found = []
    for control in Control:
        mine = [one for one in series if one.control is control and one.environment == place[0]]
        found += mine if control is Control.CANARIES else mine[:_MOST_CONTROLS]
    return found


def _controls(connection: Connection, speakers: Sequence[FoundSeries], whole: Calendar) -> tuple[ControlLevels, ...]:
    """The levels of these on each card that measured any."""
    row_of = {one.id: row for row, one in enumerate(speakers)}
    stretches = list(read_stretches(connection, list(row_of)))
    counts, points = decode_all([data for _, data in stretches])
    good = np.flatnonzero(points.value > 0)  # what has no number is NaN
    if not len(good):
        return ()
    rows = np.repeat([row_of[number] for number, _ in stretches], counts)[good]
    cards = whole.card[np.searchsorted(whole.runs, points.run[good])]
    places = whole.position[np.searchsorted(whole.commits, points.commit[good])]
    logs = np.log(points.value[good])
    return tuple(
        _on_card(speakers, rows[at], places[at], logs[at])
        for card in sorted(set(cards.tolist()))
        for at in [cards == card]
    )


def _on_card(speakers: Sequence[FoundSeries], rows: Ints, places: Ints, logs: Floats) -> ControlLevels:
    """Several runs of a commit count with their mean."""
    axis, column = np.unique(places, return_inverse=True)
    shape = (len(speakers), len(axis))
    cell = rows * len(axis) + column
    count = np.bincount(cell, minlength=shape[0] * shape[1])
    total = np.bincount(cell, weights=logs, minlength=shape[0] * shape[1])
    levels = np.full(len(count), np.nan)
    levels[count > 0] = total[count > 0] / count[count > 0]
    return ControlLevels(places=axis, controls=tuple(speakers), levels=levels.reshape(shape))
