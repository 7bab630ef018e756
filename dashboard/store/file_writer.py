"""One result file into a transaction: what of it is new, which series, run and status each value has."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from ..model.result_file import Context, Entry, ResultFile
from ..model.series import Status
from . import schema
from .attribution import Attribution
from .ids import FileIds, NameIds, SeriesIds, plain
from .imported_entries import ImportedEntries, Key, is_known
from .packed_entries import EntryHead, PackedEntries, number_or_none, pack
from .point_buffer import NewPoint, PointBuffer
from .points import Runs, keys_of, read_points
from .statements import STATUS_CODES


class FileWriter:
    """Adds result files within one transaction."""

    def __init__(
        self,
        connection: Connection,
        project: str,
        names: NameIds,
        series: SeriesIds,
        marks: ImportedEntries,
        points: PointBuffer,
    ) -> None:
        self._connection, self._project, self._names, self._series = connection, project, names, series
        self._marks, self._points = marks, points

    def write(self, result: ResultFile, machine: str, context: Context | None) -> int:
        """Adds what is new in a file; returns the number of points added."""
        connection, names = self._connection, self._names
        place = FileIds(
            project=names.project_id,
            commit=names.commit(connection, result.commit, result.date_ms),
            machine=names.machine(connection, machine, result.details),
            environment=names.environment(connection, result.environment),
            project_name=self._project,
            machine_name=machine,
            environment_name=result.environment,
        )
        self._series.tell(result.listed)
        attribution = Attribution(connection, names, place.commit, place.machine, place.environment, context)
        key = (place.commit, place.machine, place.environment)
        marks, packed = self._marks.at(key), pack(result.entries)
        if context is None and not marks:
            return self._add_all(place, key, result.commit, packed)
        fresh = [n for n, head in enumerate(packed.heads) if not is_known(head.mark, marks.get(head.benchmark, ()))]
        if not fresh:
            return 0
        run = _AsvRun(connection, names, place, result.commit, [packed.heads[n] for n in fresh])
        before = {} if result.listed else marks  # asv alone carries values over from file to file
        added = self._add_slowly(place, [packed[n] for n in fresh], run, attribution, before)
        self._marks.add(key, [(packed.heads[n].benchmark, packed.heads[n].mark) for n in fresh])
        return added

    def _add_all(self, place: FileIds, key: Key, commit: str, packed: PackedEntries) -> int:
        """A whole file as it stands: nothing of its commit is in, and no context tells of runs."""
        heads = packed.heads
        if not heads:
            return 0
        ids = self._series.of_all(self._connection, place, heads, self._names)
        run = _AsvRun(self._connection, self._names, place, commit, heads)
        self._marks.add(key, [(head.benchmark, head.mark) for head in heads])
        return self._points.add_file(ids, place.commit, run.id, packed)

    def _add_slowly(
        self,
        place: FileIds,
        entries: Sequence[Entry],
        run: "_AsvRun",
        attribution: Attribution,
        marks: Mapping[str, Sequence[str]],
    ) -> int:
        """Value by value, where a context tells of them or where some of the commit's are in."""
        self._points.flush()  # what is in is asked for below
        points: dict[tuple[int, int], NewPoint] = {}
        for entry in entries:
            benchmark = self._names.benchmark(self._connection, entry.benchmark)
            parameters = (value.parameters for value in entry.values)
            ids = self._series.of(self._connection, place, benchmark, entry.benchmark, parameters)
            is_rerun = entry.benchmark in marks
            wanted = {ids[value.parameters] for value in entry.values}
            carried = _recorded(self._connection, place.commit, wanted) if is_rerun else set()
            for point in _points_of(entry, place.commit, ids, run, attribution, carried):
                points.setdefault((point.series, point.run), point)
        for point in self._canary_points(place, attribution):
            points.setdefault((point.series, point.run), point)
        known = _known(self._connection, place.commit, points)
        new = [point for key, point in points.items() if key not in known]
        self._points.add(new)
        return len(new)

    def _canary_points(self, place: FileIds, attribution: Attribution) -> Iterator[NewPoint]:
        """What the context tells of canaries; where asv has a value too, that came first and stays."""
        for suite, parameters, row in attribution.canaries():
            name = f"{suite}.track_latency"
            if not self._series.is_listed(name):
                continue  # nobody says what its parameters and unit are
            benchmark = self._names.benchmark(self._connection, name)
            written = tuple(map(repr, parameters))
            series = self._series.of(self._connection, place, benchmark, name, [written])[written]
            yield _point(series, place.commit, row)


def _points_of(
    entry: Entry,
    commit: int,
    ids: Mapping[tuple[str, ...], int],
    run: "_AsvRun",
    attribution: Attribution,
    carried: set[tuple[Any, ...]],
) -> Iterator[NewPoint]:
    """An entry's points, without what asv only carried over from its last run of the benchmark."""
    suite = entry.benchmark.rpartition(".")[0]
    ended_ms = None if entry.started_ms is None else entry.started_ms + int(entry.duration_s * 1000) + 1000
    for value in entry.values:
        series = ids[value.parameters]
        could_differ = value.value is not None and (value.q25 is not None or not value.value.is_integer())
        if could_differ and (series, value.value, value.q25, value.q75) in carried:
            continue
        its_run, status, reason = attribution.of(suite, plain(value.parameters), ended_ms, value)
        ok = status is Status.OK
        yield NewPoint(
            series=series,
            commit=commit,
            run=its_run or run.id,
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
    """A point that a context tells of."""
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
    """The run of values that no context file explains, named by what they are: the same in every store.

    Its row is made with the first such value.
    """

    def __init__(
        self, connection: Connection, names: NameIds, place: FileIds, commit: str, heads: Sequence[EntryHead]
    ) -> None:
        self._connection, self._names, self._place, self._commit, self._heads = (
            connection,
            names,
            place,
            commit,
            heads,
        )

    @cached_property
    def id(self) -> int:
        place = self._place
        identity = [place.machine_name, place.environment_name, self._commit]
        text = json.dumps([*identity, sorted((head.benchmark, head.mark) for head in self._heads)])
        started = [head.started_ms for head in self._heads if head.started_ms is not None]
        values = {
            "machine_id": place.machine,
            "environment_id": place.environment,
            "commit_id": place.commit,
            "started_ms": min(started, default=None),
        }
        name = "asv-" + hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        return self._names.run(self._connection, name, values)


def _recorded(connection: Connection, commit: int, series: Iterable[int]) -> set[tuple[Any, ...]]:
    """The values that the series already have at the commit."""
    run = schema.run
    first, last = connection.execute(
        select(func.min(run.c.id), func.max(run.c.id)).where(run.c.commit_id == commit)
    ).one()
    if first is None:
        return set()
    found: set[tuple[Any, ...]] = set()
    for number, points in read_points(connection, list(series), runs=Runs(first=first, last=last)).items():
        for place in np.flatnonzero(points.commit == commit):
            numbers = (points.value[place], points.q25[place], points.q75[place])
            found.add((number, *map(number_or_none, numbers)))
    return found


def _known(connection: Connection, commit: int, points: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """Which of these series and runs have a point at the commit."""
    wanted = list(points)
    if not wanted:
        return set()
    runs = [run for _, run in wanted]
    found = read_points(connection, {series for series, _ in wanted}, runs=Runs(first=min(runs), last=max(runs)))
    return {(series, run) for series, its in found.items() for at, run in keys_of(its) if at == commit}
