"""Storage for the classification of a machine's changes: changes and controls are read, classifications written.

A machine counts `findings` up in each transaction that changes one, and records in `judged` the count that was
classified last, so that an interrupted classification is repeated. A new analysis keeps the classification of changes
at the same commits; a new change is unclassified, and no page, report or alert calls it a regression.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, bindparam, select, update

from ..model.machine import HardwareLimits, bound_by_memory
from ..model.metric import Better, Metric, MetricRole, metric
from ..model.verdict import ChangeKind, Control, Verdict
from ..statistics.detection import ANALYSIS_VERSION
from ..statistics.machine_attribution import Floats, Ints, Shift
from . import schema
from .chunks import decode_all
from .commit_index import CommitIndex, read_commit_index
from .engine import Store
from .mappers import Workloads, limits_of, workloads
from .points import read_chunks
from .statements import id_in, update_each

CLASSIFICATION_COLUMNS = ("kind", "control", "control_share", "control_share_low", "control_share_high", "q_value")
UNCLASSIFIED: Mapping[str, Any] = {**dict.fromkeys(CLASSIFICATION_COLUMNS), "kind": ChangeKind.UNJUDGED.value}

Classifications = Mapping[tuple[int, int], Mapping[str, Any]]  # by the ids of series and commit


def read_classifications(connection: Connection, series: Collection[int]) -> Classifications:
    table = schema.changepoint
    rows = connection.execute(
        select(table.c.series_id, table.c.commit_id, *(table.c[name] for name in CLASSIFICATION_COLUMNS)).where(
            id_in(connection, table.c.series_id, series)
        )
    )
    return {(row.series_id, row.commit_id): dict(zip(CLASSIFICATION_COLUMNS, row[2:], strict=True)) for row in rows}


def verdict_of(kind: str, is_worse: bool) -> Verdict:
    """The verdict on a series by the kind of its last step; a change by the machine is no change."""
    if kind in {ChangeKind.UNJUDGED.value, ChangeKind.NOT_SIGNIFICANT.value}:
        return Verdict.INCONCLUSIVE
    if kind == ChangeKind.MACHINE_STATE.value:
        return Verdict.UNCHANGED
    return Verdict.REGRESSED if is_worse else Verdict.IMPROVED


_MOST_CONTROLS = 60  # of baselines, or of other series


@dataclass(frozen=True, slots=True, kw_only=True)
class UnclassifiedMachine:
    """A machine whose findings have changed since their classification."""

    id: int
    project_id: int
    project: str


class MachineSeries(NamedTuple):
    """A series of a machine, with the facts that classification uses."""

    id: int
    environment: int
    is_listed: bool  # in benchmarks.json
    suite: str
    family: str | None  # noise family; None if the machine's state does not affect the metric
    sign: int  # -1 for a rate, which falls when its time rises
    memory_bound: bool | None  # None: unknown
    control: Control | None  # the kind of control that it is
    is_canary: bool
    is_ours: bool  # and judged
    is_exact: bool  # without noise


class MachineChange(NamedTuple):
    """A changepoint with its commits as positions in the project's order, and its stored classification."""

    series: MachineSeries
    commit_id: int
    place: int  # of the first commit of the new level
    range_start: int
    range_end: int
    magnitude: float
    low: float
    high: float
    chance: float
    family: int | None  # of GPU-adjusted values: series of ours that were compared at the commit
    stored: tuple[Any, ...]  # CLASSIFICATION_COLUMNS
    is_confirmed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ControlLevels:
    """Logarithms of the levels of controls on one GPU: a row for each control, a column for each commit; NaN: none."""

    places: Ints  # positions of the commits
    controls: tuple[MachineSeries, ...]
    levels: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MachineFindings:
    """What is classified together. `controls` are by environment and noise family, for each GPU."""

    machine: UnclassifiedMachine
    findings: int
    families: Mapping[int, int]  # by environment, the number of listed series for the false discovery rate
    changes: tuple[MachineChange, ...]
    controls: dict[tuple[int, str], tuple[ControlLevels, ...]]


class Classification(NamedTuple):
    change: MachineChange
    kind: ChangeKind
    control: Control | None
    share: Shift | None
    q_value: float | None

    @property
    def columns(self) -> tuple[Any, ...]:
        share = (self.share.value, self.share.ci_low, self.share.ci_high) if self.share else (None, None, None)
        return (self.kind.value, self.control.value if self.control else None, *share, self.q_value)


def unclassified_machines(store: Store, only: str | None) -> tuple[UnclassifiedMachine, ...]:
    """The machines of one project, or of all projects that this ANALYSIS_VERSION analyses."""
    machine, project = schema.machine, schema.project
    query = (
        select(machine.c.id, machine.c.project_id, project.c.name)
        .join(project, project.c.id == machine.c.project_id)
        .where(machine.c.findings != machine.c.judged, project.c.analysis_version == ANALYSIS_VERSION)
        .order_by(machine.c.id)
    )
    with store.read() as connection:
        rows = connection.execute(query if only is None else query.where(project.c.name == only))
        return tuple(UnclassifiedMachine(id=row.id, project_id=row.project_id, project=row.name) for row in rows)


def read_findings(store: Store, machine: UnclassifiedMachine) -> MachineFindings | None:
    """Read in one transaction; None if the machine is classified already, or gone."""
    with store.read() as connection:
        table = schema.machine
        row = connection.execute(
            select(table.c.findings, table.c.judged, table.c.context).where(table.c.id == machine.id)
        ).one_or_none()
        if row is None or row.findings == row.judged:
            return None
        known = workloads(connection, machine.project_id)
        series = _series(connection, machine.id, known, limits_of(row.context))
        index = read_commit_index(connection, machine.project_id)
        changes = _changes(connection, machine.id, series, index)
        families = {(one.series.environment, one.series.family) for one in changes if one.series.family is not None}
        return MachineFindings(
            machine=machine,
            findings=row.findings,
            families=Counter(
                one.environment for one in series.values() if one.is_listed and one.is_ours and not one.is_exact
            ),
            changes=changes,
            controls={
                family: _levels(connection, _controls(series.values(), family[0]), index) for family in sorted(families)
            },
        )


def write_classifications(store: Store, findings: MachineFindings, classifications: Sequence[Classification]) -> bool:
    """Write new classifications and the verdicts of the summaries. False if the findings have changed since."""
    table, change, summary = schema.machine, schema.changepoint, schema.summary
    with store.write(findings.machine.project, of_project=True) as connection:
        done = connection.execute(
            update(table)
            .where(table.c.id == findings.machine.id, table.c.findings == findings.findings)
            .values(judged=findings.findings)
        )
        if not done.rowcount:
            return False
        new = [each for each in classifications if each.columns != each.change.stored]
        if new:
            row = (change.c.series_id == bindparam("key_series")) & (change.c.commit_id == bindparam("key_commit"))
            update_each(connection, change, update(change).where(row), [_update_row(each) for each in new])
        last_step = (change.c.series_id == summary.c.series_id) & (change.c.commit_id == summary.c.change_commit_id)
        rows = connection.execute(
            select(summary.c.series_id, summary.c.verdict, change.c.kind, change.c.is_worse)
            .join(change, last_step)
            .join(schema.series, schema.series.c.id == summary.c.series_id)
            .where(
                schema.series.c.machine_id == findings.machine.id,
                summary.c.change_is_step,
                summary.c.value.is_not(None),
            )
        ).all()
        verdicts = [(row.series_id, verdict_of(row.kind, row.is_worse), row.verdict) for row in rows]
        changed = [
            {"key_series": number, "verdict": now.value} for number, now, before in verdicts if now.value != before
        ]
        if changed:
            connection.execute(update(summary).where(summary.c.series_id == bindparam("key_series")), changed)
    return True


def _update_row(classification: Classification) -> dict[str, Any]:
    key = {"key_series": classification.change.series.id, "key_commit": classification.change.commit_id}
    return {**key, **dict(zip(CLASSIFICATION_COLUMNS, classification.columns, strict=True))}


def _series(connection: Connection, machine: int, known: Workloads, limits: HardwareLimits) -> dict[int, MachineSeries]:
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
    no_controls = not known.controls and not any(each.baselines for each in known.values())
    facts = cache(partial(_facts, known, limits, no_controls))  # equal for many series
    return {
        number: MachineSeries(number, environment, listed, *facts(*rest)) for number, environment, listed, *rest in rows
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
    """The fields of a MachineSeries from `suite` on."""
    suite, series_metric = benchmark.rpartition(".")[0], metric(metric_name, unit)
    is_canary, is_rival = known.is_control(suite, implementation), known.is_rival(suite, implementation)
    family, sign = _noise_family(series_metric)
    kind = Control.CANARIES if is_canary else Control.BASELINES if is_rival else Control.OTHERS
    is_control = family == "latency" and sign > 0 and series_metric.is_judged and (is_canary or is_rival or no_controls)
    workload = known.get((suite, workload_name or ""))
    memory_bound = bound_by_memory(workload, limits) if workload is not None else None
    is_ours = series_metric.is_judged and not is_canary and not is_rival
    control = kind if is_control else None
    return suite, family, sign, memory_bound, control, is_canary, is_ours, series_metric.is_exact


def _noise_family(series_metric: Metric) -> tuple[str | None, int]:
    """The noise family whose machine state affects the metric, and the sign of its effect."""
    if series_metric.follows_machine:
        return series_metric.noise_family, 1
    is_rate = series_metric.role is MetricRole.RESTATED and series_metric.better is Better.HIGHER
    return ("latency", -1) if is_rate else (None, 1)


def _changes(
    connection: Connection, machine: int, series: dict[int, MachineSeries], index: CommitIndex
) -> tuple[MachineChange, ...]:
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
            table.c.p_adjusted,
            table.c.family,
            table.c.is_confirmed,
            *(table.c[name] for name in CLASSIFICATION_COLUMNS),
        )
        .join(schema.series, schema.series.c.id == table.c.series_id)
        .where(schema.series.c.machine_id == machine)
    ).all()
    ids = np.array([row[1:4] for row in rows], dtype=np.int64).reshape(-1, 3)
    places = index.position[np.searchsorted(index.commits, ids)].tolist()
    return tuple(
        MachineChange(
            series[number],
            commit,
            place,
            start,
            end,
            magnitude,
            low,
            high,
            chance,
            family,
            tuple(stored),
            is_confirmed,
        )
        for (number, commit, _, _, magnitude, low, high, chance, family, is_confirmed, *stored), (
            place,
            start,
            end,
        ) in zip(rows, places, strict=True)
    )


def _controls(series: Iterable[MachineSeries], environment: int) -> list[MachineSeries]:
    """The controls of an environment; of many the first by key, which is a hash and thus random."""
    controls = []
    for control in Control:
        of_kind = [one for one in series if one.control is control and one.environment == environment]
        controls += of_kind if control is Control.CANARIES else of_kind[:_MOST_CONTROLS]
    return controls


def _levels(connection: Connection, controls: Sequence[MachineSeries], index: CommitIndex) -> tuple[ControlLevels, ...]:
    """The levels of the controls on each GPU that measured any."""
    row_of = {one.id: row for row, one in enumerate(controls)}
    chunks = list(read_chunks(connection, list(row_of)))
    counts, points = decode_all([data for _, data in chunks])
    good = np.flatnonzero(points.value > 0)  # False for NaN
    if not len(good):
        return ()
    rows = np.repeat([row_of[number] for number, _ in chunks], counts)[good]
    gpus = index.gpu[np.searchsorted(index.runs, points.run[good])]
    places = index.position[np.searchsorted(index.commits, points.commit[good])]
    logs = np.log(points.value[good])
    return tuple(
        _levels_on_gpu(controls, rows[at], places[at], logs[at])
        for gpu in sorted(set(gpus.tolist()))
        for at in [gpus == gpu]
    )


def _levels_on_gpu(controls: Sequence[MachineSeries], rows: Ints, places: Ints, logs: Floats) -> ControlLevels:
    """The mean of a commit's runs on one GPU."""
    axis, column = np.unique(places, return_inverse=True)
    shape = (len(controls), len(axis))
    cell = rows * len(axis) + column
    count = np.bincount(cell, minlength=shape[0] * shape[1])
    total = np.bincount(cell, weights=logs, minlength=shape[0] * shape[1])
    levels = np.full(len(count), np.nan)
    levels[count > 0] = total[count > 0] / count[count > 0]
    return ControlLevels(places=axis, controls=tuple(controls), levels=levels.reshape(shape))
