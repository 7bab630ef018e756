"""Which machine code a series ran at each of some commits."""

from collections.abc import Collection

from sqlalchemy import select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.store import Store


def ran_codes(store: Store, key: str, commits: Collection[str]) -> dict[str, str]:
    """Its hash by the commit's, both in full, for those commits where it is recorded; of several runs the newest's."""
    series, run, detail, commit = tables.series, tables.run, tables.detail, tables.commit
    with store.read() as connection:
        of = connection.execute(
            select(series, tables.benchmark.c.name.label("benchmark"))
            .join(tables.benchmark, tables.benchmark.c.id == series.c.benchmark_id)
            .where(series.c.key == key)
        ).one_or_none()
        if of is None or of.workload is None:
            return {}
        rows = connection.execute(
            select(commit.c.hash, detail.c.code_sha256)
            .join(run, run.c.id == detail.c.run_id)
            .join(commit, commit.c.id == run.c.commit_id)
            .where(
                run.c.machine_id == of.machine_id,
                run.c.environment_id == of.environment_id,
                detail.c.suite == of.benchmark.rpartition(".")[0],
                detail.c.workload == of.workload,
                detail.c.implementation == (of.implementation or ""),
                detail.c.code_sha256.is_not(None),
                commit.c.hash.in_(commits),
            )
            .order_by(run.c.started_ms, run.c.id)
        )
        return {row.hash: row.code_sha256 for row in rows}
