"""Projects and the machines that measured them."""

from typing import Any

from sqlalchemy import Connection, Row, func, select

from ...model.machine import Gpu, Machine, gpu_of
from ...model.series import Project
from ...statistics.detection import ANALYSIS_VERSION
from .. import schema
from ..engine import Store, cached
from ..mappers import commits_by_id, limits_of, moment, project_id


def projects(store: Store) -> tuple[Project, ...]:
    """All projects, the one with the newest run first."""
    return store.cached(None, "projects", lambda: _projects(store))


def project(store: Store, name: str) -> Project | None:
    return next((each for each in projects(store) if each.name == name), None)


def _projects(store: Store) -> tuple[Project, ...]:
    table = schema.project

    def count(of: Any) -> Any:
        return select(func.count()).where(of.c.project_id == table.c.id).scalar_subquery()

    machine, series = schema.machine, schema.series
    stale = select(func.count()).where(series.c.project_id == table.c.id, series.c.stale)
    unjudged = select(func.count()).where(machine.c.project_id == table.c.id, machine.c.findings != machine.c.judged)
    newest_run = select(func.max(schema.run.c.started_ms)).where(schema.run.c.project_id == table.c.id)
    newest_commit = select(func.max(schema.commit.c.date_ms)).where(schema.commit.c.project_id == table.c.id)
    with store.read() as connection:
        rows = connection.execute(
            select(
                table.c.name,
                table.c.repository,
                table.c.commit_url,
                count(schema.machine).label("machines"),
                count(schema.series).label("series"),
                count(schema.commit).label("commits"),
                table.c.analysis_version,
                stale.scalar_subquery().label("stale"),
                unjudged.scalar_subquery().label("unjudged"),
                newest_run.scalar_subquery().label("newest_run"),
                newest_commit.scalar_subquery().label("newest_commit"),
            )
        ).all()
    found = [
        Project(
            name=row.name,
            repository=row.repository,
            machines=row.machines,
            series=row.series,
            commits=row.commits,
            newest_commit=moment(row.newest_commit),
            newest_run=moment(row.newest_run),
            unanalysed=row.stale if row.analysis_version == ANALYSIS_VERSION else row.series,
            unjudged=row.unjudged,
            commit_url=row.commit_url,
        )
        for row in rows
    ]
    found.sort(key=lambda p: (p.newest_run is None, -(p.newest_run.timestamp() if p.newest_run else 0), p.name))
    return tuple(found)


@cached()
def machines(store: Store, project: str) -> tuple[Machine, ...]:
    """The project's machines, the one with the newest run first."""
    table, run = schema.machine, schema.run
    with store.read() as connection:
        owner = project_id(connection, project)
        rows = connection.execute(
            select(table, func.count(run.c.id).label("runs"), func.max(run.c.started_ms).label("newest_run"))
            .outerjoin(run, run.c.machine_id == table.c.id)
            .where(table.c.project_id == owner)
            .group_by(table.c.id)
        ).all()
        found = [_machine(connection, row) for row in rows]
    found.sort(key=lambda m: (m.newest_run is None, -(m.newest_run.timestamp() if m.newest_run else 0), m.name))
    return tuple(found)


def _machine(connection: Connection, row: Row[Any]) -> Machine:
    run, commit = schema.run, schema.commit
    newest = connection.execute(
        select(run.c.commit_id)
        .join(commit, commit.c.id == run.c.commit_id)
        .where(run.c.machine_id == row.id)
        .order_by(commit.c.position.desc())
        .limit(1)
    ).scalar()
    context = row.context or {}
    return Machine(
        name=row.name,
        gpu=(context.get("gpu") or {}).get("name") or gpu_of(row.details),
        cpu=(context.get("cpu") or {}).get("model") or row.details.get("cpu"),
        details=row.details,
        limits=limits_of(context),
        gpus=_gpus(connection, row.id),
        runs=row.runs,
        newest_run=moment(row.newest_run),
        newest_commit=commits_by_id(connection, [newest])[newest] if newest is not None else None,
    )


def _gpus(connection: Connection, machine: int) -> tuple[Gpu, ...]:
    run = schema.run
    rows = connection.execute(
        select(run.c.gpu, func.count().label("runs"), func.max(run.c.started_ms).label("newest_run"))
        .where(run.c.machine_id == machine, run.c.gpu.is_not(None))
        .group_by(run.c.gpu)
    ).all()
    newest_first = sorted(rows, key=lambda row: -(row.newest_run or 0))
    return tuple(Gpu(uuid=row.gpu, runs=row.runs, newest_run=moment(row.newest_run)) for row in newest_first)
