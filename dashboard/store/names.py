"""Ids of the rows that have a name: looked up once, made when new. Only inside a write transaction."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Table, and_, insert, select, update

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.rows import insert_one


class Names:
    """Ids by name for one project, remembered between transactions that committed.

    After one that did not, make a new one: it would remember rows that never came to be.
    """

    def __init__(self, project_id: int) -> None:
        self.project_id = project_id
        self._known: dict[tuple[Any, ...], int] = {}
        self._read_whole: set[str] = set()

    def machine(self, connection: Connection, name: str, details: Mapping[str, str]) -> int:
        """The machine called `name`; its details are those given first."""
        return self._id(connection, tables.machine, {"name": name}, {"details": dict(details)})

    def environment(self, connection: Connection, name: str) -> int:
        return self._id(connection, tables.environment, {"name": name}, {})

    def commit(self, connection: Connection, commit: str, date_ms: int) -> int:
        """The commit with this hash; its date is the one given first, until a repository knows better."""
        return self._id(connection, tables.commit, {"hash": commit}, {"date_ms": date_ms})

    def benchmark(self, connection: Connection, name: str) -> int:
        return self._id(connection, tables.benchmark, {"name": name}, {})

    def run(self, connection: Connection, name: str, values: Mapping[str, Any]) -> int:
        return self._id(connection, tables.run, {"name": name}, values)

    def workload(self, connection: Connection, suite: str, name: str, values: Mapping[str, Any]) -> None:
        """The workload, brought to what the newest file says of it."""
        row = self._id(connection, tables.workload, {"suite": suite, "name": name}, values)
        connection.execute(update(tables.workload).where(tables.workload.c.id == row).values(**values))

    def _id(self, connection: Connection, table: Table, name: Mapping[str, str], rest: Mapping[str, Any]) -> int:
        known = (table.name, *name.values())
        if table in _READ_WHOLE and table.name not in self._read_whole:
            self._read_all(connection, table)
        row = self._known.get(known)
        if row is None:
            values = {"project_id": self.project_id, **name, **rest}
            row = connection.execute(insert_one(connection, table), values).scalar()
            if row is None:
                where = and_(table.c.project_id == self.project_id, *(table.c[k] == v for k, v in name.items()))
                row = connection.execute(select(table.c.id).where(where)).scalar_one()
            self._known[known] = row
        return row

    def _read_all(self, connection: Connection, table: Table) -> None:
        """A file names many of them, or each file one, and a question for each takes longer than all in one."""
        name = _READ_WHOLE[table]
        rows = connection.execute(select(table.c[name], table.c.id).where(table.c.project_id == self.project_id))
        self._known.update({(table.name, name): row for name, row in rows})
        self._read_whole.add(table.name)


_READ_WHOLE = {tables.machine: "name", tables.environment: "name", tables.benchmark: "name", tables.commit: "hash"}


def project_row(connection: Connection, name: str, repository: str | None) -> tuple[int, str | None]:
    """The project's id, made when new, and its repository: the one given, else the one remembered."""
    project = tables.project
    known = select(project.c.id, project.c.repository).where(project.c.name == name)
    row = connection.execute(known).one_or_none()
    if row is None:
        values = {"name": name, "repository": repository}
        made = connection.execute(insert(project).values(**values).returning(project.c.id))
        return made.scalar_one(), repository
    if repository is None or repository == row.repository:
        return row.id, row.repository
    connection.execute(update(project).where(project.c.id == row.id).values(repository=repository))
    return row.id, repository
