"""Recorded facts at both ends of a change: conditions, launches, compiled code, baselines and canaries."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from ...model.compiled_code import CompiledCode
from ...model.series import Origin, Series, workload_of
from .. import schema
from ..engine import Store
from ..mappers import commit_ids, project_id, series_record, series_row, workloads
from ..statements import id_in
from .commits import compiled_of
from .compiled_code import code_of_machine
from .series import canaries_of, origin_of, others_of
from .series_lines import ProjectOrder, SeriesLine, lines, project_order


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceValues:
    """A series at both commits: medians of the commit's runs, in the series' unit."""

    series: Series
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEvidence:
    """Facts of the newest run at each end, of one GPU if one measured both; None or empty: not recorded."""

    own: ReferenceValues | None
    origin_before: Origin | None
    origin_after: Origin | None
    suite_before: str | None  # hash of the benchmark suite
    suite_after: str | None
    compiled_before: tuple[CompiledCode, ...]  # for the GPU that ran
    compiled_after: tuple[CompiledCode, ...]
    baselines: tuple[ReferenceValues, ...]  # measured at both ends
    canaries: tuple[ReferenceValues, ...]


def change_evidence(store: Store, key: str, base: str, head: str) -> ChangeEvidence | None:
    """The facts of a series by key, at two commits by full hash; None if it has no values at one of them."""
    with store.read() as connection:
        row = series_row(connection, key)
        if row is None:
            return None
        ids = commit_ids(connection, row.project_id, [base, head])
        if base not in ids or head not in ids:
            return None
        known = workloads(connection, row.project_id)
        series = series_record(row, known)
        references = [*others_of(connection, row, known), *canaries_of(connection, row, series, known)]
        order = project_order(store, connection, row.project_name)
        lines_of = lines(connection, order, [row.id, *(number for number, _ in references)])
        ends = (ids[base], ids[head])
        runs = _runs(lines_of.get(row.id), order, ends)
        if runs is None:
            return None
        values = [_values(lines_of.get(number), one, ends) for number, one in [(row.id, series), *references]]
        recorded = [_run(connection, row, run) for run in runs]
        operator = workload.operator if (workload := workload_of(series, known)) is not None else None
        compiled = [
            _compiled(connection, end, operator, series.implementation, origin)
            for end, (origin, _) in zip(ends, recorded, strict=True)
        ]
        return ChangeEvidence(
            own=values[0],
            origin_before=recorded[0][0],
            origin_after=recorded[1][0],
            suite_before=recorded[0][1],
            suite_after=recorded[1][1],
            compiled_before=compiled[0],
            compiled_after=compiled[1],
            baselines=tuple(each for each in values[1:] if each is not None and each.series.is_baseline),
            canaries=tuple(each for each in values[1:] if each is not None and each.series.is_control),
        )


def _runs(line: SeriesLine | None, order: ProjectOrder, ends: tuple[int, int]) -> tuple[int, int] | None:
    """The newest run with a number at each end, of one GPU if one measured both."""
    if line is None:
        return None
    at = [np.flatnonzero(line.has_number & (line.points.commit == end)) for end in ends]
    if not len(at[0]) or not len(at[1]):
        return None
    gpus = [order.commit_index.gpu[np.searchsorted(order.commit_index.runs, line.points.run[each])] for each in at]
    shared = np.intersect1d(gpus[0], gpus[1])
    if len(shared):
        at = [each[gpu == shared[-1]] for each, gpu in zip(at, gpus, strict=True)]
    return int(line.points.run[at[0][-1]]), int(line.points.run[at[1][-1]])


def _values(line: SeriesLine | None, series: Series, ends: tuple[int, int]) -> ReferenceValues | None:
    if line is None:
        return None
    values = [line.points.value[line.has_number & (line.points.commit == end)] for end in ends]
    if not len(values[0]) or not len(values[1]):
        return None
    return ReferenceValues(series=series, before=float(np.median(values[0])), after=float(np.median(values[1])))


def _run(connection: Connection, row: Any, run: int) -> tuple[Origin | None, str | None]:
    """Facts of a run of the series, and the hash of its benchmark suite."""
    table = schema.run
    found = connection.execute(
        select(table.c.name, table.c.context["suite_sha256"].as_string().label("suite")).where(table.c.id == run)
    ).one()
    return origin_of(connection, row, found.name), found.suite


def _compiled(
    connection: Connection, commit: int, operator: str | None, implementation: str | None, origin: Origin | None
) -> tuple[CompiledCode, ...]:
    if operator is None or origin is None:
        return ()
    codes: Sequence[CompiledCode] = [
        code for code in compiled_of(connection, commit, operator) if code.implementation in {None, implementation}
    ]
    return tuple(code_of_machine(codes, {"gpu": origin.gpu}))


MachineCommit = tuple[str, str]
"""Names of a machine and of a commit (full hash)."""

Measured = tuple[str, str, str]
"""Suite, workload, implementation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What one call ran; None or empty: not recorded."""

    code_sha256: str | None
    kernels: tuple[str, ...]  # names without template arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchesAt:
    """What ran at a commit and at the one that the machine measured before it, by its newest run."""

    commit: int  # id
    before: int
    after_of: Mapping[Measured, Launch]
    before_of: Mapping[Measured, Launch]


def launches_at(store: Store, project: str, wanted: Collection[MachineCommit]) -> dict[MachineCommit, LaunchesAt]:
    """By machine and commit; those without an earlier commit on the machine are left out."""
    pairs = _with_previous(store, project, wanted)
    ids = {number for pair in pairs.values() for number in pair}
    run, detail, machine = schema.run, schema.detail, schema.machine
    found: dict[tuple[str, int], dict[Measured, Launch]] = {}
    with store.read() as connection:
        rows = connection.execute(
            select(
                machine.c.name,
                run.c.commit_id,
                detail.c.suite,
                detail.c.workload,
                detail.c.implementation,
                detail.c.code_sha256,
                detail.c.data["launched"].label("launched"),
            )
            .join_from(run, detail, detail.c.run_id == run.c.id)
            .join(machine, machine.c.id == run.c.machine_id)
            .where(run.c.project_id == project_id(connection, project), id_in(connection, run.c.commit_id, ids))
            .order_by(run.c.started_ms, run.c.id)
        )
        for row in rows:
            launch = Launch(code_sha256=row.code_sha256, kernels=tuple(row.launched or ()))
            if launch.code_sha256 or launch.kernels:
                mine = found.setdefault((row.name, row.commit_id), {})
                mine[row.suite, row.workload, row.implementation] = launch
    return {
        (name, commit): LaunchesAt(
            commit=number,
            before=before,
            after_of=found.get((name, number), {}),
            before_of=found.get((name, before), {}),
        )
        for (name, commit), (number, before) in pairs.items()
    }


def _with_previous(
    store: Store, project: str, wanted: Collection[MachineCommit]
) -> dict[MachineCommit, tuple[int, int]]:
    """Ids of each commit and of the one that its machine measured before it."""
    run, commit, machine = schema.run, schema.commit, schema.machine
    with store.read() as connection:
        rows = connection.execute(
            select(machine.c.name, commit.c.id, commit.c.hash, commit.c.position)
            .join_from(run, commit, commit.c.id == run.c.commit_id)
            .join(machine, machine.c.id == run.c.machine_id)
            .where(run.c.project_id == project_id(connection, project), commit.c.position.is_not(None))
            .distinct()
            .order_by(machine.c.name, commit.c.position)
        ).all()
    return {
        (row.name, row.hash): (row.id, before.id)
        for before, row in itertools.pairwise(rows)
        if before.name == row.name and (row.name, row.hash) in wanted
    }
