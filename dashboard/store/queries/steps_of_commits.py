"""How many series each of some commits made worse and better: what a list of commits tells beside their names."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, select

from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.queries.watched import watched_metrics
from warpwatch.dashboard.store.reading import project_id
from warpwatch.dashboard.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Series of ours whose level a commit moved, on whichever machine."""

    worse: int = 0
    better: int = 0


def steps_of_commits(store: Store, project: str) -> Mapping[str, Steps]:
    """By hash, of all commits that began a step of a listed series of a judged metric."""
    return store.remember(project, "steps of commits", lambda: _counted(store, project), may_be_former=True)


def _counted(store: Store, project: str) -> Mapping[str, Steps]:
    series, change, commit = tables.series, tables.changepoint, tables.commit
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return {}
        watched = watched_metrics(connection, owner)
        kind = (series.c.benchmark_id, series.c.implementation, series.c.metric, series.c.unit)
        rows = connection.execute(
            select(commit.c.hash, *kind, change.c.is_worse, func.count().label("number"))
            .join_from(change, series, series.c.id == change.c.series_id)
            .join(commit, commit.c.id == change.c.commit_id)
            .where(series.c.project_id == owner, series.c.listed, change.c.kind == ChangeKind.STEP.value)
            .group_by(commit.c.hash, *kind, change.c.is_worse)
        ).all()  # fmt: skip
    counted: dict[str, list[int]] = {}
    for row in rows:
        if watched(row.benchmark_id, row.implementation, row.metric, row.unit) is not None:
            counted.setdefault(row.hash, [0, 0])[0 if row.is_worse else 1] += row.number
    return {name: Steps(worse=worse, better=better) for name, (worse, better) in counted.items()}
