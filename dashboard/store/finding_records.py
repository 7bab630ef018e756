"""Records of findings: the rows of the tables `changepoint` and `episode`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, select

from ..model.changepoint import ControlShare, Regression, RegressionGroup, SeriesChange
from ..model.series import Commit
from ..model.verdict import ChangeKind, Control
from . import schema
from .mappers import Workloads, commits_by_id, select_series, series_record

BelowLimits = frozenset[tuple[int, int]]
"""Steps below the project's thresholds, by the ids of series and commit."""


def changes_of(connection: Connection, series_ids: Sequence[int]) -> dict[int, tuple[SeriesChange, ...]]:
    """Changepoints by series, in order."""
    return _by_series(connection, schema.changepoint, series_ids)


def episodes_of(connection: Connection, series_ids: Sequence[int]) -> dict[int, tuple[SeriesChange, ...]]:
    return _by_series(connection, schema.episode, series_ids)


def _by_series(connection: Connection, table: Table, ids: Sequence[int]) -> dict[int, tuple[SeriesChange, ...]]:
    is_chosen = table.c.series_id.in_(ids)
    rows = connection.execute(select(table).where(is_chosen).order_by(table.c.series_id, table.c.place)).all()
    findings: dict[int, tuple[SeriesChange, ...]] = {}
    for row, record in zip(rows, _records(connection, table, rows), strict=True):
        findings[row.series_id] = (*findings.get(row.series_id, ()), record)
    return findings


def select_findings(table: Table) -> Select[Any]:
    """Select the findings of a table, each with its series, for `regression_records`."""
    columns = [column for column in table.c if column.name != "series_id"]
    return select_series(*columns).join(table, table.c.series_id == schema.series.c.id)


def regression_records(
    connection: Connection,
    table: Table,
    rows: Sequence[Row[Any]],
    known: Workloads,
    below: BelowLimits = frozenset(),
) -> list[Regression]:
    """The records of rows of `select_findings`; those in `below` do not count."""
    return [
        Regression(series=series_record(row, known), change=change, counts=(row.id, row.commit_id) not in below)
        for row, change in zip(rows, _records(connection, table, rows), strict=True)
    ]


def group_record(project: str, regressions: Sequence[Regression]) -> RegressionGroup:
    """The group of regressions at one commit on one machine: times first, then the largest."""
    ordered = sorted(regressions, key=lambda one: (not one.series.metric.is_time, -abs(one.change.magnitude)))
    return RegressionGroup(
        project=project,
        machine=ordered[0].series.machine,
        commit=ordered[0].change.commit,
        previous_commit=max((one.change.previous_commit for one in ordered), key=lambda commit: commit.position),
        regressions=tuple(ordered),
    )


def _records(connection: Connection, table: Table, rows: Sequence[Row[Any]]) -> list[SeriesChange]:
    commits_in, record = (_commits_of_episode, _episode) if table is schema.episode else (_commits_of_change, _change)
    commits = commits_by_id(connection, (number for row in rows for number in commits_in(row)))
    return [record(row, commits) for row in rows]


def _commits_of_change(row: Row[Any]) -> Iterator[int]:
    yield from (row.commit_id, row.previous_commit_id, row.range_start_commit_id, row.range_end_commit_id)
    yield from (commit for commit, _ in row.posterior)


def _commits_of_episode(row: Row[Any]) -> Iterator[int]:
    yield from (row.commit_id, row.previous_commit_id, row.last_commit_id)


def _change(row: Row[Any], commits: Mapping[int, Commit]) -> SeriesChange:
    return SeriesChange(
        **_common(row, commits),
        range_start=commits[row.range_start_commit_id],
        range_end=commits[row.range_end_commit_id],
        p_adjusted=row.p_adjusted,
        posterior=tuple((commits[commit], probability) for commit, probability in row.posterior),
        share=_share(row),
        q_value=row.q_value,
        is_across_gpus=bool(row.is_across_gpus),
        gpus=row.gpus,
        is_confirmed=row.is_confirmed,
    )


def _episode(row: Row[Any], commits: Mapping[int, Commit]) -> SeriesChange:
    return SeriesChange(
        **_common(row, commits),
        range_start=commits[row.previous_commit_id],
        range_end=commits[row.last_commit_id],
    )


def _common(row: Row[Any], commits: Mapping[int, Commit]) -> dict[str, Any]:
    """The fields that changepoints and episodes share."""
    return {
        "index": row.place,
        "commit": commits[row.commit_id],
        "previous_commit": commits[row.previous_commit_id],
        "before": row.before,
        "after": row.after,
        "magnitude": row.magnitude,
        "ci_low": row.low,
        "ci_high": row.high,
        "p_value": row.p_value,
        "is_worse": row.is_worse,
        "kind": ChangeKind(row.kind),
    }


def _share(row: Row[Any]) -> ControlShare | None:
    if row.control is None:
        return None
    return ControlShare(
        control=Control(row.control),
        value=row.control_share,
        ci_low=row.control_share_low,
        ci_high=row.control_share_high,
    )
