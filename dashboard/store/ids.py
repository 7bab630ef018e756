"""Ids of rows that have a name and of series, looked up once and made when new."""

import ast
import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, Table, and_, func, insert, select, update

from ..model.metric import metric_name, unit_of
from ..model.result_file import BenchmarkSpec
from . import schema
from .chunks import Ints
from .packed_entries import EntryHead
from .statements import insert_new, insert_one


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
        return self._id(connection, schema.machine, {"name": name}, {"details": dict(details)})

    def environment(self, connection: Connection, name: str) -> int:
        return self._id(connection, schema.environment, {"name": name}, {})

    def commit(self, connection: Connection, commit: str, date_ms: int) -> int:
        """The commit with this hash; its date is the one given first, until a repository knows better."""
        return self._id(connection, schema.commit, {"hash": commit}, {"date_ms": date_ms})

    def benchmark(self, connection: Connection, name: str) -> int:
        return self._id(connection, schema.benchmark, {"name": name}, {})

    def run(self, connection: Connection, name: str, values: Mapping[str, Any]) -> int:
        return self._id(connection, schema.run, {"name": name}, values)

    def workload(self, connection: Connection, suite: str, name: str, values: Mapping[str, Any]) -> None:
        """The workload, brought to what the newest file says of it."""
        row = self._id(connection, schema.workload, {"suite": suite, "name": name}, values)
        connection.execute(update(schema.workload).where(schema.workload.c.id == row).values(**values))

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


_READ_WHOLE = {schema.machine: "name", schema.environment: "name", schema.benchmark: "name", schema.commit: "hash"}


def project_row(connection: Connection, name: str, repository: str | None) -> tuple[int, str | None]:
    """The project's id, made when new, and its repository: the one given, else the one remembered."""
    project = schema.project
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


# Ids of series, looked up a machine and environment at a time and made when new. Only inside a write transaction.

_series = schema.series
MOST_SERIES_BYTES = 8_000
_MOST_LAYOUTS = 8  # of a place that are remembered: benchmarks come and go, and files are not read in commits' order


class SeriesLimitError(Exception):
    """A file with series that cannot be added; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The rows a file's points belong to, and the names that series keys are made of."""

    project: int
    commit: int
    machine: int
    environment: int
    project_name: str
    machine_name: str
    environment_name: str


class SeriesIds:
    """Ids by parameters, remembered between transactions that committed."""

    def __init__(self, listed: Mapping[str, BenchmarkSpec], *, room: int | None = None) -> None:
        self._listed = dict(listed)
        self._room = room  # for so many new ones; None: any number
        self._known: dict[tuple[int, int, int], dict[tuple[str, ...], int]] = {}
        self._layouts: dict[tuple[int, int], list[tuple[list[Any], Ints]]] = {}  # of a place, the last used first
        self._read_whole: set[tuple[int, int]] = set()

    def tell(self, listed: Mapping[str, BenchmarkSpec]) -> None:
        """What a file itself says of benchmarks that are not listed yet."""
        self._listed = {**listed, **self._listed} if listed else self._listed

    def is_listed(self, benchmark: str) -> bool:
        """Whether anybody says what its parameters and unit are."""
        return benchmark in self._listed

    def of_all(self, connection: Connection, place: Place, heads: Sequence[EntryHead], names: Names) -> Ints:
        """The id of each combination of each entry, in their order. Another file of a place mostly had the same."""
        layout = [(head.benchmark, head.choices, head.listed) for head in heads]
        layouts = self._layouts.setdefault((place.machine, place.environment), [])
        number = next((number for number, (known, _) in enumerate(layouts) if known == layout), None)
        if number is not None:
            layouts.insert(0, layouts.pop(number))
            return layouts[0][1]
        each = [self._of_entry(connection, place, head, names) for head in heads]
        found = np.array(list(itertools.chain.from_iterable(each)), dtype=np.int64)
        layouts.insert(0, (layout, found))
        del layouts[_MOST_LAYOUTS:]
        return found

    def _of_entry(self, connection: Connection, place: Place, head: EntryHead, names: Names) -> list[int]:
        combinations = head.combinations
        benchmark = names.benchmark(connection, head.benchmark)
        known = self.of(connection, place, benchmark, head.benchmark, combinations)
        return [known[parameters] for parameters in combinations]

    def of(
        self,
        connection: Connection,
        place: Place,
        benchmark_id: int,
        benchmark: str,
        combinations: Iterable[tuple[str, ...]],
    ) -> Mapping[tuple[str, ...], int]:
        """The ids of a benchmark's series at one place, those of the given parameter combinations among them."""
        key = (benchmark_id, place.machine, place.environment)
        if (place.machine, place.environment) not in self._read_whole:
            self._read_all(connection, place)
        known = self._known.setdefault(key, {})
        new = [parameters for parameters in dict.fromkeys(combinations) if parameters not in known]
        if new:
            if self._room is not None:
                self._room -= len(new)
                if self._room < 0:
                    raise SeriesLimitError("more new series than this upload may add to its project")
            rows = [self._row(place, benchmark_id, benchmark, parameters) for parameters in new]
            insert_new(connection, _series, rows)  # another import may have made some of them since they were read
            parameters_of = dict(zip((row["key"] for row in rows), new, strict=True))
            for start in range(0, len(rows), 500):
                keys = [row["key"] for row in rows[start : start + 500]]
                made = connection.execute(select(_series.c.key, _series.c.id).where(_series.c.key.in_(keys)))
                known.update({parameters_of[name]: row for name, row in made})
        return known

    def _read_all(self, connection: Connection, place: Place) -> None:
        """Those of a machine and environment: a file has most of them."""
        found = connection.execute(
            select(_series.c.benchmark_id, _series.c.id, _series.c.parameters).where(
                _series.c.project_id == place.project,
                _series.c.machine_id == place.machine,
                _series.c.environment_id == place.environment,
            )
        ).all()
        for benchmark, row, parameters in found:
            key = (benchmark, place.machine, place.environment)
            self._known.setdefault(key, {})[tuple(value for _, value in parameters)] = row
        self._read_whole.add((place.machine, place.environment))

    def _row(self, place: Place, benchmark_id: int, benchmark: str, parameters: tuple[str, ...]) -> dict[str, Any]:
        listed = self._listed.get(benchmark, BenchmarkSpec())
        names = listed.parameter_names
        if len(names) != len(parameters):
            names = tuple(f"parameter {n}" for n in range(1, len(parameters) + 1))
        value_of = dict(zip(names, plain(parameters), strict=True))
        identity = [place.project_name, benchmark, parameters, place.machine_name, place.environment_name]
        unit = unit_of(benchmark, listed.unit, parameters)
        size = sum(len(text.encode()) for text in (*names, *parameters, unit or ""))
        if size > MOST_SERIES_BYTES:
            raise SeriesLimitError(
                f"{benchmark[:200]}: the parameters of a series, with their names and its unit, have {size:,} bytes; "
                f"at most {MOST_SERIES_BYTES:,} are kept"
            )
        return {
            "project_id": place.project,
            "benchmark_id": benchmark_id,
            "machine_id": place.machine,
            "environment_id": place.environment,
            "key": hashlib.blake2b(json.dumps(identity).encode(), digest_size=8).hexdigest(),
            "parameters": [list(pair) for pair in zip(names, parameters, strict=True)],
            "metric": metric_name(benchmark, listed.kind),
            "unit": unit,
            "workload": value_of.get("workload"),
            "implementation": value_of.get("implementation"),
        }


def count_series(connection: Connection, project_id: int) -> int:
    """How many series the project has."""
    return connection.execute(select(func.count()).where(_series.c.project_id == project_id)).scalar_one()


def plain(parameters: Iterable[str]) -> tuple[str, ...]:
    """Parameter values without the quotes and escapes of the `repr` that asv keeps of strings."""
    return tuple(_unquoted(v) if len(v) > 1 and v[0] == v[-1] and v[0] in "'\"" else v for v in parameters)


def _unquoted(value: str) -> str:
    """A string from its `repr`; with its escapes where no database could hold it (NUL, lone surrogates)."""
    if "\\" in value:
        with suppress(ValueError, SyntaxError):  # a UnicodeEncodeError is a ValueError
            meant = ast.literal_eval(value)
            if isinstance(meant, str) and "\0" not in meant and meant.encode():
                return meant
    return value[1:-1]


# Tells writers that rows whose ids they remember may be gone.
#
# PostgreSQL gives no id out twice, so whoever uses that of a removed row meets a foreign key. SQLite gives the last
# ones out again, perhaps to other rows: there a count in the file's header, which belongs to the transaction, tells.


def note_removal(connection: Connection) -> None:
    """Call it where rows with ids go, in the same transaction."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA user_version = {(removals(connection) + 1) % 2**31}")


def removals(connection: Connection) -> int:
    """Another number than before, if an id that was read before may be another row's now."""
    if connection.dialect.name != "sqlite":
        return 0
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
