"""Writes one result file into the history, whole or not at all, and never twice.

Every call is a transaction under the project's lock, so what is looked up in it stays true until it commits. Which of
a file's benchmark entries are in already is known by their marks (asv's start time and a digest of the values): asv
re-saves a file with every benchmark it ever held, so an old entry comes again and again, and a new mark is a new run.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.attribution import Attribution
from warpwatch.dashboard.store.incoming import Context, Entry, Listed, ResultFile
from warpwatch.dashboard.store.names import Names, project_row
from warpwatch.dashboard.store.records import Status
from warpwatch.dashboard.store.rows import STATUS_CODES, insert_new
from warpwatch.dashboard.store.samples import encode
from warpwatch.dashboard.store.series_ids import Place, SeriesIds, plain
from warpwatch.dashboard.store.store import Store

_Row = dict[str, Any]


class ProjectWriter:
    """Adds result files to one project of a store."""

    def __init__(
        self, store: Store, project: str, *, repository: str | None, listed: Mapping[str, Listed] | None
    ) -> None:
        self.project = project
        self._store = store
        self._listed = listed or {}
        files = tables.source_file
        with store.write(project) as connection:
            self.project_id, self.repository = project_row(connection, project, repository)
            rows = connection.execute(select(files.c.path, files.c.digest).where(files.c.project_id == self.project_id))
            self._digests: dict[str, str] = {row.path: row.digest for row in rows}
        self._forget()

    def has(self, path: str, digest: str) -> bool:
        """Whether the file is in with just this content."""
        return self._digests.get(path) == digest

    def write(self, path: str, digest: str, result: ResultFile, machine: str, context: Context | None) -> int:
        """Adds what is new in a file; returns the number of points added."""
        try:
            with self._store.write(self.project) as connection:
                added = self._write(connection, result, machine, context)
                _remember_file(connection, self.project_id, path, digest)
        except BaseException:
            self._forget()
            raise
        self._digests[path] = digest
        return added

    def _forget(self) -> None:
        """Drops the remembered ids: after a failed transaction some of them name rows that never came to be."""
        self._names = Names(self.project_id)
        self._series = SeriesIds(self._listed)

    def _write(self, connection: Connection, result: ResultFile, machine: str, context: Context | None) -> int:
        names = self._names
        place = Place(
            project=self.project_id,
            commit=names.commit(connection, result.commit, result.date_ms),
            machine=names.machine(connection, machine, result.details),
            environment=names.environment(connection, result.environment),
            project_name=self.project,
            machine_name=machine,
            environment_name=result.environment,
        )
        attribution = Attribution(connection, names, place.commit, place.machine, place.environment, context)
        marks = _read_marks(connection, place)
        fresh = [entry for entry in result.entries if entry.mark not in marks.get(entry.benchmark, ())]
        if not fresh:
            return 0
        asv_run = _AsvRun(connection, names, place, result.commit, fresh)
        rows: list[_Row] = []
        samples: list[_Row] = []
        for entry in fresh:
            benchmark = names.benchmark(connection, entry.benchmark)
            ids = self._series.of(
                connection, place, benchmark, entry.benchmark, (value.parameters for value in entry.values)
            )
            carried = _recorded(connection, place.commit, ids.values()) if entry.benchmark in marks else set()
            _collect(entry, place.commit, ids, asv_run, attribution, carried, rows, samples)
            marks.setdefault(entry.benchmark, []).append(entry.mark)
        rows += self._canary_rows(connection, place, attribution)
        added = insert_new(connection, tables.measurement, rows)
        insert_new(connection, tables.samples, samples)
        _save_marks(connection, place, marks)
        for chunk in _chunks(sorted({row["series_id"] for row in rows})):
            connection.execute(update(tables.series).where(tables.series.c.id.in_(chunk)).values(stale=True))
        return added

    def _canary_rows(self, connection: Connection, place: Place, attribution: Attribution) -> list[_Row]:
        """What the context tells of canaries; where asv has a value too, that came first and stays."""
        rows = []
        for suite, parameters, row in attribution.canaries():
            name = f"{suite}.track_latency"
            if name not in self._listed:
                continue  # nobody says what its parameters and unit are
            benchmark = self._names.benchmark(connection, name)
            written = tuple(map(repr, parameters))
            series = self._series.of(connection, place, benchmark, name, [written])[written]
            rows.append({"series_id": series, "commit_id": place.commit, **row})
        return rows


def _collect(
    entry: Entry, commit: int, ids: Mapping[tuple[str, ...], int], asv_run: "_AsvRun", attribution: Attribution,
    carried: set[tuple[Any, ...]], rows: list[_Row], samples: list[_Row],
) -> None:  # fmt: skip
    """Appends an entry's rows, without what asv only carried over from its last run of the benchmark."""
    suite = entry.benchmark.rpartition(".")[0]
    ended_ms = None if entry.started_ms is None else entry.started_ms + int(entry.duration_s * 1000) + 1000
    for value in entry.values:
        series = ids[value.parameters]
        could_differ = value.value is not None and (value.q25 is not None or not value.value.is_integer())
        if could_differ and (series, value.value, value.q25, value.q75) in carried:
            continue
        run, status, reason = attribution.of(suite, plain(value.parameters), ended_ms, value)
        ok = status is Status.OK
        where = {"series_id": series, "commit_id": commit, "run_id": run or asv_run.id}
        rows.append(
            {
                **where,
                "value": value.value if ok else None,
                "q25": value.q25 if ok else None,
                "q75": value.q75 if ok else None,
                "sample_count": value.sample_count,
                "status": STATUS_CODES[status],
                "reason": reason,
            }
        )
        if ok and value.samples:
            samples.append({**where, "data": encode(value.samples)})
    series_of = {plain(parameters): series for parameters, series in ids.items()}
    for parameters, older in attribution.older_runs(entry.benchmark):
        if parameters in series_of:
            rows.append({"series_id": series_of[parameters], "commit_id": commit, **older})


class _AsvRun:
    """The run of values that no context file explains, named by what they are: the same in every store.

    Its row is made with the first such value.
    """

    def __init__(
        self, connection: Connection, names: Names, place: Place, commit: str, entries: Sequence[Entry]
    ) -> None:
        self._connection, self._names, self._place, self._commit, self._entries = (
            connection, names, place, commit, entries,
        )  # fmt: skip

    @cached_property
    def id(self) -> int:
        place = self._place
        identity = [place.machine_name, place.environment_name, self._commit]
        text = json.dumps([*identity, sorted((entry.benchmark, entry.mark) for entry in self._entries)])
        started = [entry.started_ms for entry in self._entries if entry.started_ms is not None]
        values = {"machine_id": place.machine, "environment_id": place.environment, "commit_id": place.commit,
                  "started_ms": min(started, default=None)}  # fmt: skip
        name = "asv-" + hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        return self._names.run(self._connection, name, values)


def _recorded(connection: Connection, commit: int, series: Iterable[int]) -> set[tuple[Any, ...]]:
    """The values that the series already have at the commit."""
    table = tables.measurement
    found: set[tuple[Any, ...]] = set()
    for chunk in _chunks(list(series)):
        rows = connection.execute(
            select(table.c.series_id, table.c.value, table.c.q25, table.c.q75).where(
                table.c.series_id.in_(chunk), table.c.commit_id == commit
            )
        )
        found.update(tuple(row) for row in rows)
    return found


def _at(place: Place) -> Any:
    table = tables.recorded
    return (
        (table.c.commit_id == place.commit)
        & (table.c.machine_id == place.machine)
        & (table.c.environment_id == place.environment)
    )


def _read_marks(connection: Connection, place: Place) -> dict[str, list[str]]:
    return connection.execute(select(tables.recorded.c.marks).where(_at(place))).scalar() or {}


def _save_marks(connection: Connection, place: Place, marks: Mapping[str, Sequence[str]]) -> None:
    table = tables.recorded
    key = {"commit_id": place.commit, "machine_id": place.machine, "environment_id": place.environment}
    connection.execute(delete(table).where(_at(place)))
    connection.execute(insert(table).values(**key, marks=marks))


def _remember_file(connection: Connection, project: int, path: str, digest: str) -> None:
    files = tables.source_file
    connection.execute(delete(files).where(files.c.project_id == project, files.c.path == path))
    values = {"project_id": project, "path": path, "digest": digest, "imported_ms": int(time.time() * 1000)}
    connection.execute(insert(files).values(**values))


def _chunks(items: Sequence[int]) -> Iterable[Sequence[int]]:
    return (items[start : start + 500] for start in range(0, len(items), 500))
