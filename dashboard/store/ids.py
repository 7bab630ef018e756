"""Cached ids of named rows and of series, inserted when new."""

import ast
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from sqlalchemy import Connection, Table, and_, func, insert, select, update

from ..model.metric import metric_name, unit_of
from ..model.result_file import BenchmarkSpec
from . import schema
from .chunks import Ints
from .packed_entries import EntryHead
from .statements import insert_new, insert_one


class NameIds:
    """Ids by name for one project, cached between transactions.

    After a rollback, create a new one: the cache may have ids of rows that were not committed.
    """

    def __init__(self, project_id: int) -> None:
        self.project_id = project_id
        self._known: dict[tuple[Any, ...], int] = {}
        self._read_tables: set[str] = set()

    def machine(self, connection: Connection, name: str, details: Mapping[str, str]) -> int:
        """The machine's id; the first details are kept."""
        return self._id(connection, schema.machine, {"name": name}, {"details": dict(details)})

    def environment(self, connection: Connection, name: str) -> int:
        return self._id(connection, schema.environment, {"name": name}, {})

    def commit(self, connection: Connection, commit: str, date_ms: int) -> int:
        """The commit's id; the first date is kept, until a repository states it."""
        return self._id(connection, schema.commit, {"hash": commit}, {"date_ms": date_ms})

    def benchmark(self, connection: Connection, name: str) -> int:
        return self._id(connection, schema.benchmark, {"name": name}, {})

    def run(self, connection: Connection, name: str, values: Mapping[str, Any]) -> int:
        return self._id(connection, schema.run, {"name": name}, values)

    def workload(self, connection: Connection, suite: str, name: str, values: Mapping[str, Any]) -> None:
        """Insert the workload, or update it to the newest file."""
        row = self._id(connection, schema.workload, {"suite": suite, "name": name}, values)
        connection.execute(update(schema.workload).where(schema.workload.c.id == row).values(**values))

    def _id(self, connection: Connection, table: Table, name: Mapping[str, str], rest: Mapping[str, Any]) -> int:
        known = (table.name, *name.values())
        if table in _READ_AT_ONCE and table.name not in self._read_tables:
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
        """Cache all rows with one query: files name many of them."""
        name = _READ_AT_ONCE[table]
        rows = connection.execute(select(table.c[name], table.c.id).where(table.c.project_id == self.project_id))
        self._known.update({(table.name, name): row for name, row in rows})
        self._read_tables.add(table.name)


_READ_AT_ONCE = {schema.machine: "name", schema.environment: "name", schema.benchmark: "name", schema.commit: "hash"}


def project_row(connection: Connection, name: str, repository: str | None) -> tuple[int, str | None]:
    """The project's id, inserted when new, and its repository: the given one, else the stored one."""
    project = schema.project
    known = select(project.c.id, project.c.repository).where(project.c.name == name)
    row = connection.execute(known).one_or_none()
    if row is None:
        values = {"name": name, "repository": repository}
        inserted = connection.execute(insert(project).values(**values).returning(project.c.id))
        return inserted.scalar_one(), repository
    if repository is None or repository == row.repository:
        return row.id, row.repository
    connection.execute(update(project).where(project.c.id == row.id).values(repository=repository))
    return row.id, repository


_series = schema.series
MOST_SERIES_BYTES = 8_000


class SeriesLimitError(Exception):
    """Series of a file cannot be added; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIds:
    """Ids of the rows that a file's points refer to, and the names in series keys."""

    project: int
    commit: int
    machine: int
    environment: int
    project_name: str
    machine_name: str
    environment_name: str


class SeriesIds:
    """Ids of series by parameters, cached between transactions; inserted inside write transactions."""

    def __init__(self, listed: Mapping[str, BenchmarkSpec], *, room: int | None = None) -> None:
        self._listed = dict(listed)
        self._room = room  # for new series; None: unlimited
        self._known: dict[tuple[int, int, int], dict[tuple[str, ...], int]] = {}
        self._read_pairs: set[tuple[int, int]] = set()

    def add_listed(self, listed: Mapping[str, BenchmarkSpec]) -> None:
        """Add a file's own descriptions of benchmarks that are not listed yet."""
        self._listed = {**listed, **self._listed} if listed else self._listed

    def is_listed(self, benchmark: str) -> bool:
        """Whether the benchmark's parameters and unit are described."""
        return benchmark in self._listed

    def ids_of_entries(self, connection: Connection, file: FileIds, heads: Sequence[EntryHead], names: NameIds) -> Ints:
        """The id of each combination of each entry, in order."""
        ids: list[int] = []
        for head in heads:
            benchmark = names.benchmark(connection, head.benchmark)
            known = self.ids_of(connection, file, benchmark, head.benchmark, head.combinations)
            ids += [known[parameters] for parameters in head.combinations]
        return np.array(ids, dtype=np.int64)

    def ids_of(
        self,
        connection: Connection,
        file: FileIds,
        benchmark_id: int,
        benchmark: str,
        combinations: Iterable[tuple[str, ...]],
    ) -> Mapping[tuple[str, ...], int]:
        """The ids of a benchmark's series on the file's machine and environment, at least of the combinations."""
        key = (benchmark_id, file.machine, file.environment)
        if (file.machine, file.environment) not in self._read_pairs:
            self._read_all(connection, file)
        known = self._known.setdefault(key, {})
        new = [parameters for parameters in dict.fromkeys(combinations) if parameters not in known]
        if new:
            if self._room is not None:
                self._room -= len(new)
                if self._room < 0:
                    raise SeriesLimitError("more new series than this upload may add to its project")
            rows = [self._row(file, benchmark_id, benchmark, parameters) for parameters in new]
            insert_new(connection, _series, rows)  # a concurrent import may have inserted some
            parameters_of = dict(zip((row["key"] for row in rows), new, strict=True))
            for start in range(0, len(rows), 500):
                keys = [row["key"] for row in rows[start : start + 500]]
                inserted = connection.execute(select(_series.c.key, _series.c.id).where(_series.c.key.in_(keys)))
                known.update({parameters_of[name]: row for name, row in inserted})
        return known

    def _read_all(self, connection: Connection, file: FileIds) -> None:
        """Cache all series of a machine and environment: a file has most of them."""
        rows = connection.execute(
            select(_series.c.benchmark_id, _series.c.id, _series.c.parameters).where(
                _series.c.project_id == file.project,
                _series.c.machine_id == file.machine,
                _series.c.environment_id == file.environment,
            )
        ).all()
        for benchmark, row, parameters in rows:
            key = (benchmark, file.machine, file.environment)
            self._known.setdefault(key, {})[tuple(value for _, value in parameters)] = row
        self._read_pairs.add((file.machine, file.environment))

    def _row(self, file: FileIds, benchmark_id: int, benchmark: str, parameters: tuple[str, ...]) -> dict[str, Any]:
        listed = self._listed.get(benchmark, BenchmarkSpec())
        names = listed.parameter_names
        if len(names) != len(parameters):
            names = tuple(f"parameter {n}" for n in range(1, len(parameters) + 1))
        value_of = dict(zip(names, plain(parameters), strict=True))
        identity = [file.project_name, benchmark, parameters, file.machine_name, file.environment_name]
        unit = unit_of(benchmark, listed.unit, parameters)
        size = sum(len(text.encode()) for text in (*names, *parameters, unit or ""))
        if size > MOST_SERIES_BYTES:
            raise SeriesLimitError(
                f"{benchmark[:200]}: the parameters of a series, with their names and its unit, have {size:,} bytes; "
                f"the limit is {MOST_SERIES_BYTES:,}"
            )
        return {
            "project_id": file.project,
            "benchmark_id": benchmark_id,
            "machine_id": file.machine,
            "environment_id": file.environment,
            "key": hashlib.blake2b(json.dumps(identity).encode(), digest_size=8).hexdigest(),
            "parameters": [list(pair) for pair in zip(names, parameters, strict=True)],
            "metric": metric_name(benchmark, listed.kind),
            "unit": unit,
            "workload": value_of.get("workload"),
            "implementation": value_of.get("implementation"),
        }


def count_series(connection: Connection, project_id: int) -> int:
    return connection.execute(select(func.count()).where(_series.c.project_id == project_id)).scalar_one()


def plain(parameters: Iterable[str]) -> tuple[str, ...]:
    """Parameter values without the quotes and escapes of `repr`, in which asv stores strings."""
    return tuple(map(_plain, parameters))


@lru_cache(maxsize=1 << 14)  # the same few values for every metric of every file
def _plain(value: str) -> str:
    return _unquoted(value) if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _unquoted(value: str) -> str:
    """A string from its `repr`; escapes stay if a database cannot store it (NUL, lone surrogates)."""
    if "\\" in value:
        with suppress(ValueError, SyntaxError):  # a UnicodeEncodeError is a ValueError
            text = ast.literal_eval(value)
            if isinstance(text, str) and "\0" not in text and text.encode():
                return text
    return value[1:-1]


# Invalidation of cached row ids after deletes. PostgreSQL never reuses an id, so that an id of a deleted row violates a
# foreign key. SQLite reuses the last ids: there a counter in the file's header, which is transactional, is compared.


def invalidate_row_ids(connection: Connection) -> None:
    """Call in the transaction that deletes rows with ids."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA user_version = {(row_id_epoch(connection) + 1) % 2**31}")


def row_id_epoch(connection: Connection) -> int:
    """A number that changes when ids read before may belong to other rows."""
    if connection.dialect.name != "sqlite":
        return 0
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
