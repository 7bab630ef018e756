"""One kernel over all its shapes and the newest commits."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from ...model.kernel_line import Cell, Kernel, ShapeRow
from ...model.naming import module_of, natural
from ...model.series import Series
from ...model.verdict import Verdict
from .. import schema
from ..chunks import Ints
from ..commit_index import CommitIndex
from ..engine import Store
from ..finding_records import changes_of
from ..mappers import Workloads, commits_by_id, project_id, select_series, series_record, workloads
from ..statements import STATUS_OF_CODE, id_in
from .latest import verdicts_within_limits
from .machines import commit_software
from .series_lines import SeriesLine, gpu_ratios, lines, project_order
from .series_list import is_measured_somewhere

_MOST_ROWS = 200


def kernel(
    store: Store,
    project: str,
    name: str,
    *,
    machine: str | None,
    metric: str | None,
    implementation: str | None,
    commits: int,
) -> Kernel | None:
    """The newest `commits` commits of an operator, benchmark, suite or module; None if there is none of that name.

    Defaults: the machine with the newest run, the latency, our own kernel.
    """
    with store.read() as connection:
        owner = project_id(connection, project)
        known = workloads(connection, owner)
        rows = _series(connection, owner, known, name)
        if not rows:
            return None
        machines = _machines(connection, owner, {one.machine for _, one in rows})
        chosen_machine = machine if machine in machines else machines[0]
        rows = [each for each in rows if each[1].machine == chosen_machine]
        metrics = sorted({one.metric.name for _, one in rows}, key=_metric_order(rows))
        chosen_metric = metric if metric in metrics else metrics[0]
        rows = [each for each in rows if each[1].metric.name == chosen_metric]
        names = _implementations(rows)
        chosen = implementation if implementation in names else next(iter(names), None)
        rows = [each for each in rows if chosen is None or each[1].implementation == chosen]
        rows.sort(key=lambda each: (natural(each[1].title), each[1].environment))
        hidden, rows = len(rows[_MOST_ROWS:]), rows[:_MOST_ROWS]
        ids = [number for number, _ in rows]
        order = project_order(store, connection, project)
        histories = lines(connection, order, ids)
        ranks = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *(line.rank for line in histories.values())]))
        shown = ranks[-commits:]
        commit_ids = order.commit_index.commits[np.argsort(order.rank)[shown]].tolist()
        shown_commits = commits_by_id(connection, commit_ids)
        runs = _run_names(connection, histories.values(), shown)
        changes = changes_of(connection, ids)
        verdicts = _verdicts(connection, known, ids)
        ratios = gpu_ratios(connection, ids)
        return Kernel(
            name=name,
            machines=machines,
            metrics=tuple(metrics),
            implementations=names,
            machine=chosen_machine,
            metric=chosen_metric,
            implementation=chosen,
            commits=tuple(shown_commits[number] for number in commit_ids),
            software=tuple(map(commit_software(store, project, chosen_machine).get, commit_ids)),
            older=len(ranks) > len(shown),
            hidden=hidden,
            rows=tuple(
                ShapeRow(
                    series=one,
                    cells=_cells(histories[number], shown, order.commit_index, runs, ratios.get(number)),
                    changes=changes.get(number, ()),
                    verdict=verdicts.get(number, Verdict.MISSING),
                )
                for number, one in rows
                if number in histories
            ),
        )


def _series(connection: Connection, owner: int, known: Workloads, name: str) -> list[tuple[int, Series]]:
    series, benchmark = schema.series, schema.benchmark
    mine = [workload for workload in known.values() if workload.operator == name]
    where: list[Any] = [series.c.project_id == owner, series.c.listed]
    measured = is_measured_somewhere(connection, owner)
    if mine:
        where.append(series.c.workload.in_({workload.name for workload in mine}))
    else:
        in_module = benchmark.c.name.startswith(f"{name}.", autoescape=True)
        where.append((benchmark.c.name == name) | in_module)
    rows = connection.execute(select_series().where(*where, measured)).all()
    if not rows and not mine:  # also of unlisted benchmarks
        rows = connection.execute(select_series().where(*where[:1], *where[2:])).all()
    suites = {workload.benchmark for workload in mine}
    series_rows = [(row.id, series_record(row, known)) for row in rows]
    if mine:
        return [each for each in series_rows if each[1].suite in suites]
    return [
        (number, one) for number, one in series_rows if name in {one.benchmark, one.suite, module_of(one.benchmark)}
    ]


def _machines(connection: Connection, owner: int, names: set[str]) -> tuple[str, ...]:
    """Names of machines, the one with the newest run first."""
    machine, run = schema.machine, schema.run
    newest = select(run.c.started_ms).where(run.c.machine_id == machine.c.id).order_by(run.c.started_ms.desc()).limit(1)
    rows = connection.execute(
        select(machine.c.name, newest.scalar_subquery().label("newest")).where(
            machine.c.project_id == owner, machine.c.name.in_(names)
        )
    ).all()
    return tuple(row.name for row in sorted(rows, key=lambda row: (-(row.newest or 0), row.name)))


def _metric_order(rows: Sequence[tuple[int, Series]]) -> Any:
    metrics = {one.metric.name: one.metric for _, one in rows}
    return lambda name: (not metrics[name].is_latency, not metrics[name].is_judged, name)


def _implementations(rows: Sequence[tuple[int, Series]]) -> tuple[str, ...]:
    """Ours first, the project's own kernel before its twins."""
    rival = {one.implementation: one.is_baseline for _, one in rows if one.implementation is not None}
    return tuple(sorted(rival, key=lambda name: (rival[name], name != "warpwatch", name)))


def _verdicts(connection: Connection, known: Workloads, ids: Sequence[int]) -> Mapping[int, Verdict]:
    series, summary = schema.series, schema.summary
    rows = connection.execute(
        select(series.c.id, series.c.project_id, summary.c.verdict, summary.c.change_commit_id)
        .join(summary, summary.c.series_id == series.c.id)
        .where(id_in(connection, series.c.id, ids))
    ).all()
    return verdicts_within_limits(connection, known, rows)


def _run_names(connection: Connection, histories: Iterable[SeriesLine], shown: Ints) -> Mapping[int, str]:
    """Of every run at these commits, by its id."""
    table = schema.run
    ids = {number for line in histories for number in line.points.run[np.isin(line.rank, shown)].tolist()}
    rows = connection.execute(select(table.c.id, table.c.name).where(id_in(connection, table.c.id, ids)))
    return {row.id: row.name for row in rows}


def _cells(
    line: SeriesLine,
    shown: Ints,
    commit_index: CommitIndex,
    runs: Mapping[int, str],
    ratios: Sequence[float | None] | None,
) -> tuple[Cell | None, ...]:
    """Each commit's median, or the reason why it has none."""
    is_shown = np.isin(line.rank, shown)
    value = line.medians()
    gpus = _gpus(line, is_shown & line.has_number, commit_index)
    ratio_of = line.ratios(ratios)
    last = dict(zip(line.rank[is_shown].tolist(), np.flatnonzero(is_shown).tolist(), strict=True))
    reasons = (None, *line.points.reasons)

    def cell(rank: int) -> Cell | None:
        if rank not in last:
            return None
        index = last[rank]
        status = STATUS_OF_CODE[0] if rank in value else STATUS_OF_CODE[int(line.points.status[index])]
        return Cell(
            value=value.get(rank),
            adjusted=value[rank] * ratio if rank in value and (ratio := ratio_of.get(rank)) is not None else None,
            status=status,
            reason=reasons[int(line.points.reason[index])],
            gpus=frozenset(gpus.get(rank, ())),
            run=runs[int(line.points.run[index])],
        )

    return tuple(cell(rank) for rank in shown.tolist())


def _gpus(line: SeriesLine, good: Any, commit_index: CommitIndex) -> dict[int, set[str]]:
    """UUIDs of the GPUs behind each commit's median, by rank."""
    names = (None, *commit_index.gpus)
    gpus: dict[int, set[str]] = {}
    numbers = commit_index.gpu[commit_index.runs.searchsorted(line.points.run[good])].tolist()
    for rank, number in zip(line.rank[good].tolist(), numbers, strict=True):
        if name := names[number]:
            gpus.setdefault(rank, set()).add(name)
    return gpus
