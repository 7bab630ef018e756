"""Add one result file in a transaction: find new entries, and the series, run and status of each value."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import orjson
from sqlalchemy import Connection, func, select

from ..model.result_file import Context, Entry, ResultFile
from ..model.series import Status
from . import schema
from .attribution import Attribution
from .chunks import codec
from .ids import FileIds, NameIds, SeriesIds, plain
from .packed_entries import EntryHead, PackedEntries, number_or_none, pack
from .point_buffer import NewPoint, PointBuffer
from .points import Runs, keys_of, read_points
from .statements import STATUS_CODES, insert_or_replace

Key = tuple[int, int, int]  # commit, machine, environment


class ImportedEntries:
    """Marks of imported entries: an entry's start and a digest of its values, read on demand.

    asv re-saves a file with every benchmark it ever had: a known mark is an old entry, a new one a new run. Use it
    in one transaction, and save it before the end.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[Key, dict[str, list[str]]] = {}
        self._changed: set[Key] = set()

    def at(self, key: Key) -> Mapping[str, Sequence[str]]:
        """The marks by benchmark."""
        if key not in self._known:
            self._known[key] = self._read(key)
        return self._known[key]

    def _read(self, key: Key) -> dict[str, list[str]]:
        data = self._connection.execute(select(schema.recorded.c.marks).where(_has_key(key))).scalar()
        return {} if data is None else decode_marks(data)

    def add(self, key: Key, marks: Iterable[tuple[str, str]]) -> None:
        """Add marks of benchmarks, after a call of `at`."""
        known = self._known[key]
        for benchmark, mark in marks:
            known.setdefault(benchmark, []).append(mark)
        self._changed.add(key)

    def save(self) -> None:
        """Write the added marks."""
        rows = [
            {
                "commit_id": key[0],
                "machine_id": key[1],
                "environment_id": key[2],
                "marks": encode_marks(self._known[key]),
            }
            for key in sorted(self._changed)
        ]
        insert_or_replace(self._connection, schema.recorded, rows)
        self._changed.clear()


def is_known(mark: str, known: Sequence[str]) -> bool:
    """Whether an entry with this mark was imported.

    Old marks have "-" in place of ":" and another digest: only their starts are compared.
    """
    if mark in known:
        return True
    started, is_new, _ = mark.partition(":")
    return bool(is_new) and started != "0" and any(each.startswith(f"{started}-") for each in known)


def encode_marks(marks: Mapping[str, Sequence[str]]) -> bytes:
    return codec.compress(orjson.dumps(marks))


def decode_marks(data: bytes) -> dict[str, list[str]]:
    marks: dict[str, list[str]] = orjson.loads(codec.decompress(data))
    return marks


def _has_key(key: Key) -> Any:
    table = schema.recorded
    commit, machine, environment = key
    return (table.c.commit_id == commit) & (table.c.machine_id == machine) & (table.c.environment_id == environment)


class FileWriter:
    """Adds result files within one transaction."""

    def __init__(
        self,
        connection: Connection,
        project: str,
        names: NameIds,
        series: SeriesIds,
        imported: ImportedEntries,
        points: PointBuffer,
    ) -> None:
        self._connection, self._project, self._names, self._series = connection, project, names, series
        self._imported, self._points = imported, points

    def write(self, result: ResultFile, machine: str, context: Context | None) -> int:
        """Add the new entries of a file; return the number of points added."""
        connection, names = self._connection, self._names
        file = FileIds(
            project=names.project_id,
            commit=names.commit(connection, result.commit, result.date_ms),
            machine=names.machine(connection, machine, result.details),
            environment=names.environment(connection, result.environment),
            project_name=self._project,
            machine_name=machine,
            environment_name=result.environment,
        )
        self._series.add_listed(result.listed)
        attribution = Attribution(connection, names, file.commit, file.machine, file.environment, context)
        key = (file.commit, file.machine, file.environment)
        marks, packed = self._imported.at(key), pack(result.entries)
        if context is None and not marks:
            return self._add_all(file, key, result.commit, packed)
        fresh = [n for n, head in enumerate(packed.heads) if not is_known(head.mark, marks.get(head.benchmark, ()))]
        if not fresh:
            return 0
        run = _AsvRun(connection, names, file, result.commit, [packed.heads[n] for n in fresh])
        before = {} if result.listed else marks  # only asv copies values from file to file
        added = self._add_values(file, [packed[n] for n in fresh], run, attribution, before)
        self._imported.add(key, [(packed.heads[n].benchmark, packed.heads[n].mark) for n in fresh])
        return added

    def _add_all(self, file: FileIds, key: Key, commit: str, packed: PackedEntries) -> int:
        """Add all entries of a file without a context, the first of its commit."""
        heads = packed.heads
        if not heads:
            return 0
        ids = self._series.ids_of_entries(self._connection, file, heads, self._names)
        run = _AsvRun(self._connection, self._names, file, commit, heads)
        self._imported.add(key, [(head.benchmark, head.mark) for head in heads])
        return self._points.add_file(ids, file.commit, run.id, packed)

    def _add_values(
        self,
        file: FileIds,
        entries: Sequence[Entry],
        run: "_AsvRun",
        attribution: Attribution,
        marks: Mapping[str, Sequence[str]],
    ) -> int:
        """Add value by value, with a context or after other files of the commit."""
        if self._points.holds(file.commit):
            self._points.flush()  # stored points of the commit are read below
        points: dict[tuple[int, int], NewPoint] = {}
        for entry in entries:
            benchmark = self._names.benchmark(self._connection, entry.benchmark)
            parameters = (value.parameters for value in entry.values)
            ids = self._series.ids_of(self._connection, file, benchmark, entry.benchmark, parameters)
            is_rerun = entry.benchmark in marks
            series_ids = {ids[value.parameters] for value in entry.values}
            carried = _recorded(self._connection, file.commit, series_ids) if is_rerun else set()
            for point in _points_of(entry, file.commit, ids, run, attribution, carried):
                points.setdefault((point.series, point.run), point)
        for point in self._canary_points(file, attribution):
            points.setdefault((point.series, point.run), point)
        known = _known(self._connection, file.commit, points)
        new = [point for key, point in points.items() if key not in known]
        self._points.add(new)
        return len(new)

    def _canary_points(self, file: FileIds, attribution: Attribution) -> Iterator[NewPoint]:
        """Points of canaries from the context; a value of asv takes precedence."""
        for suite, parameters, row in attribution.canaries():
            name = f"{suite}.track_latency"
            if not self._series.is_listed(name):
                continue  # without parameter names and unit
            benchmark = self._names.benchmark(self._connection, name)
            written = tuple(map(repr, parameters))
            series = self._series.ids_of(self._connection, file, benchmark, name, [written])[written]
            yield _point(series, file.commit, row)


def _points_of(
    entry: Entry,
    commit: int,
    ids: Mapping[tuple[str, ...], int],
    run: "_AsvRun",
    attribution: Attribution,
    carried: set[tuple[Any, ...]],
) -> Iterator[NewPoint]:
    """An entry's points, without values that asv copied from its previous run of the benchmark."""
    suite = entry.benchmark.rpartition(".")[0]
    ended_ms = None if entry.started_ms is None else entry.started_ms + int(entry.duration_s * 1000) + 1000
    for value in entry.values:
        series = ids[value.parameters]
        is_measured = value.value is not None and (value.q25 is not None or not value.value.is_integer())
        if is_measured and (series, value.value, value.q25, value.q75) in carried:
            continue  # a count may repeat in a new run, a measured time does not
        run_id, status, reason = attribution.of(suite, plain(value.parameters), ended_ms, value)
        ok = status is Status.OK
        yield NewPoint(
            series=series,
            commit=commit,
            run=run_id or run.id,
            value=value.value if ok else None,
            q25=value.q25 if ok else None,
            q75=value.q75 if ok else None,
            sample_count=value.sample_count,
            status=STATUS_CODES[status],
            reason=reason,
            samples=value.samples if ok else (),
        )
    series_of = {plain(parameters): series for parameters, series in ids.items()}
    for parameters, older in attribution.older_runs(entry.benchmark):
        if parameters in series_of:
            yield _point(series_of[parameters], commit, older)


def _point(series: int, commit: int, row: Mapping[str, Any]) -> NewPoint:
    return NewPoint(
        series=series,
        commit=commit,
        run=row["run_id"],
        value=row["value"],
        q25=row["q25"],
        q75=row["q75"],
        sample_count=row["sample_count"],
        status=row["status"],
        reason=row["reason"],
    )


class _AsvRun:
    """The run of values without a context, named by a digest of them, equal in every store; inserted on first use."""

    def __init__(
        self, connection: Connection, names: NameIds, file: FileIds, commit: str, heads: Sequence[EntryHead]
    ) -> None:
        self._connection, self._names, self._file, self._commit, self._heads = (
            connection,
            names,
            file,
            commit,
            heads,
        )

    @cached_property
    def id(self) -> int:
        file = self._file
        identity = [file.machine_name, file.environment_name, self._commit]
        text = json.dumps([*identity, sorted((head.benchmark, head.mark) for head in self._heads)])
        started = [head.started_ms for head in self._heads if head.started_ms is not None]
        values = {
            "machine_id": file.machine,
            "environment_id": file.environment,
            "commit_id": file.commit,
            "started_ms": min(started, default=None),
        }
        name = "asv-" + hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        return self._names.run(self._connection, name, values)


def _recorded(connection: Connection, commit: int, series: Iterable[int]) -> set[tuple[Any, ...]]:
    """The values of the series that are stored for the commit."""
    run = schema.run
    first, last = connection.execute(
        select(func.min(run.c.id), func.max(run.c.id)).where(run.c.commit_id == commit)
    ).one()
    if first is None:
        return set()
    values: set[tuple[Any, ...]] = set()
    for number, points in read_points(connection, list(series), runs=Runs(first=first, last=last)).items():
        for index in np.flatnonzero(points.commit == commit):
            numbers = (points.value[index], points.q25[index], points.q75[index])
            values.add((number, *map(number_or_none, numbers)))
    return values


def _known(connection: Connection, commit: int, points: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """The pairs of series and run that have a point at the commit."""
    pairs = list(points)
    if not pairs:
        return set()
    runs = [run for _, run in pairs]
    stored = read_points(connection, {series for series, _ in pairs}, runs=Runs(first=min(runs), last=max(runs)))
    return {(series, run) for series, columns in stored.items() for at, run in keys_of(columns) if at == commit}
