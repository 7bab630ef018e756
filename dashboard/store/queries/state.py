"""Whether what is recorded of a project stands still, told by a few numbers that its writers count up."""

from sqlalchemy import BigInteger, cast, func, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.store import Store

_WEIGHTS = 1_000_003  # of commits' places in a sum that tells orders apart


def project_state(store: Store, project: str) -> tuple[int | None, ...]:
    """Differs whenever points, runs, the order of commits, findings or imported files of the project do.

    Notes and alerts are not in it.
    """
    series, commit, machine = tables.series, tables.commit, tables.machine
    run, file = tables.run, tables.source_file
    owner = select(tables.project.c.id).where(tables.project.c.name == project).scalar_subquery()
    number = cast(commit.c.id, BigInteger)
    told = [
        select(func.count(), func.sum(series.c.revision), func.sum(cast(series.c.listed, BigInteger)), func.max(
            series.c.id)).where(series.c.project_id == owner),
        select(func.count(), func.max(run.c.id)).where(run.c.project_id == owner),
        select(func.count(commit.c.position), func.max(commit.c.id), func.sum(
            commit.c.position * (number * number % _WEIGHTS))).where(commit.c.project_id == owner),
        select(func.sum(machine.c.findings), func.sum(machine.c.judged)).where(machine.c.project_id == owner),
        select(func.count(), func.max(file.c.imported_ms)).where(file.c.project_id == owner),
    ]  # fmt: skip
    with store.read() as connection:
        rows = [connection.execute(each).one() for each in told]
    return tuple(None if value is None else int(value) for row in rows for value in row)
