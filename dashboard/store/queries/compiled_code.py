"""The compiled code behind a series at one commit."""

from dataclasses import dataclass

from sqlalchemy import select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.queries.commits import AmbiguousCommitError, compiled_of, find_row
from warpwatch.dashboard.store.reading import select_series, series_record, workload_of, workloads
from warpwatch.dashboard.store.records import CompiledCode
from warpwatch.dashboard.store.store import Store

__all__ = ["AmbiguousCommitError", "CodesOfCommit", "compiled_code"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodesOfCommit:
    """Every kernel of one operator at a commit, for each architecture."""

    commit: str
    codes: tuple[CompiledCode, ...]


def compiled_code(store: Store, key: str, prefix: str | None) -> CodesOfCommit | None:
    """The kernels of the series' operator at the commit that starts with `prefix`, or at its newest with a value.

    None if there is no such series or commit. Raises AmbiguousCommitError if several commits start so.
    """
    commit, summary = tables.commit, tables.summary
    with store.read() as connection:
        row = connection.execute(select_series().where(tables.series.c.key == key)).one_or_none()
        if row is None:
            return None
        known = workloads(connection, row.project_id)
        workload = workload_of(series_record(row, known), known)
        if prefix is not None:
            at = find_row(connection, row.project_name, prefix)
        else:
            at = connection.execute(
                select(commit).join(summary, summary.c.commit_id == commit.c.id).where(summary.c.series_id == row.id)
            ).one_or_none()
        if at is None:
            return None
        codes = compiled_of(connection, at.id) if workload is not None else ()
    return CodesOfCommit(
        commit=at.hash, codes=tuple(each for each in codes if workload and each.operator == workload.operator)
    )
