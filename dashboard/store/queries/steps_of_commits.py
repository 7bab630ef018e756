"""How many series each of some commits made worse and better: what a list of commits tells beside their names."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import select

from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.queries.below_limits import below_limits
from warpwatch.dashboard.store.queries.watched import watched_metrics
from warpwatch.dashboard.store.reading import project_id, workloads
from warpwatch.dashboard.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Series of ours whose level a commit moved, on whichever machine."""

    worse: int = 0
    better: int = 0


def steps_of_commits(store: Store, project: str) -> Mapping[str, Steps]:
    """By hash, of all commits that began a step of a listed series of a judged metric, one that counts by the limits
    that the project states."""
    return store.cached(project, "steps of commits", lambda: _counted(store, project))


def _counted(store: Store, project: str) -> Mapping[str, Steps]:
    series, change, commit = tables.series, tables.changepoint, tables.commit
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return {}
        watched = watched_metrics(connection, owner)
        below = below_limits(connection, owner, workloads(connection, owner))
        rows = connection.execute(
            select(
                commit.c.hash, commit.c.id.label("commit_id"), series.c.id, series.c.benchmark_id,
                series.c.implementation, series.c.metric, series.c.unit, change.c.is_worse,
            )
            .join_from(change, series, series.c.id == change.c.series_id)
            .join(commit, commit.c.id == change.c.commit_id)
            .where(series.c.project_id == owner, series.c.listed, change.c.kind == ChangeKind.STEP.value)
        ).all()  # fmt: skip
    counted: dict[str, list[int]] = {}
    for row in rows:
        if (row.id, row.commit_id) in below:
            continue
        if watched(row.benchmark_id, row.implementation, row.metric, row.unit) is not None:
            counted.setdefault(row.hash, [0, 0])[0 if row.is_worse else 1] += 1
    return {name: Steps(worse=worse, better=better) for name, (worse, better) in counted.items()}
