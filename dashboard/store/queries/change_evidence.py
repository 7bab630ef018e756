"""Recorded facts at both ends of a change: conditions, launched kernels, compiled code, baselines and canaries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from ...model.compiled_code import CompiledCode
from ...model.series import Origin, Series, workload_of
from .. import schema
from ..engine import Store
from ..mappers import commit_ids, series_record, series_row, workloads
from .commits import compiled_of
from .compiled_code import code_of_machine
from .points import origin_of
from .series import canaries_of, others_of
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
        order = project_order(store, connection, row.project_id)
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
