"""Writes result files into the history, each whole or not at all, and never twice.

Files may share a transaction, which is under the project's lock, so what is looked up in it stays true until it
commits; one that does not commit leaves no trace of any of its files. What is in already is known by marks
(imported_entries.py).
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from ..model.result_file import BenchmarkSpec, Context, ResultFile
from . import schema
from .commits import mark_self_described
from .engine import Store
from .file_writer import FileWriter
from .ids import NameIds, SeriesIds, count_series, project_row, row_id_epoch
from .imported_entries import ImportedEntries
from .point_buffer import PointBuffer


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file that was read, to be written."""

    path: str  # its name in the project: below the results folder
    digest: str
    result: ResultFile
    machine: str
    context: Context | None
    stamp: str | None = None  # equal to that of the file at the next import if nobody touched it


class ProjectWriter:
    """Adds result files to one project of a store."""

    def __init__(
        self,
        store: Store,
        project: str,
        *,
        repository: str | None,
        listed: Mapping[str, BenchmarkSpec] | None,
        most_series: int | None = None,
    ) -> None:
        """`most_series` is how many the project may have with what is added; None is any number."""
        self.project, self.repository = project, repository
        self._store = store
        self._listed = listed or {}
        self._most_series = most_series
        self._removals = -1  # as long as no ids are remembered that could be removed
        with store.write(project, of_project=True) as connection:
            self._read(connection)

    def has(self, path: str, digest: str) -> bool:
        """Whether the file is in with just this content."""
        return self.digest_of(path) == digest

    def digest_of(self, path: str) -> str | None:
        """The digest of the file's content that is in, if any is."""
        known = self._files.get(path)
        return None if known is None else known[0]

    def is_untouched(self, path: str, stamp: str | None) -> bool:
        """Whether the file is in and has not been touched since."""
        known = self._files.get(path)
        return known is not None and stamp is not None and known[1] == stamp

    def write(self, path: str, digest: str, result: ResultFile, machine: str, context: Context | None) -> int:
        """Adds what is new in a file; returns the number of points added."""
        return self.write_all([NewFile(path=path, digest=digest, result=result, machine=machine, context=context)])

    def write_all(self, files: Sequence[NewFile]) -> int:
        """Adds what is new in the files, all or none; returns the number of points added.

        Raises SeriesLimitError if they have more new series than the project may have, or one that is too large.
        """
        try:
            return self._write_all(files)
        except IntegrityError:  # what was remembered has been removed since (retention.py)
            return self._write_all(files)

    def _write_all(self, files: Sequence[NewFile]) -> int:
        try:
            with self._store.write(self.project, of_project=True) as connection:
                if self._removals != row_id_epoch(connection):
                    self._read(connection)
                described = {name for file in files for name in file.result.listed}
                mark_self_described(connection, self.project_id, described)
                marks, points = ImportedEntries(connection), PointBuffer(connection)
                writer = FileWriter(connection, self.project, self._names, self._series, marks, points)
                added = sum(writer.write(file.result, file.machine, file.context) for file in files)
                points.flush()
                marks.save()
                _remember(connection, self.project_id, files)
        except BaseException:
            self._removals = -1  # what is remembered names rows that never came to be
            raise
        self._files.update((file.path, (file.digest, file.stamp)) for file in files)
        return added

    def restamp(self, stamps: Mapping[str, str | None]) -> None:
        """Remembers that these files were touched, but not changed."""
        if not stamps:
            return
        table = schema.source_file
        with self._store.write(self.project, of_project=True) as connection:
            connection.execute(
                update(table)
                .where(table.c.project_id == self.project_id, table.c.path == bindparam("its_path"))
                .values(stamp=bindparam("its_stamp")),
                [{"its_path": path, "its_stamp": stamp} for path, stamp in stamps.items()],
            )

    def _read(self, connection: Connection) -> None:
        """The project, which is made when new, and which of its files are in; ids are remembered from here on."""
        files = schema.source_file
        self.project_id, self.repository = project_row(connection, self.project, self.repository)
        rows = connection.execute(
            select(files.c.path, files.c.digest, files.c.stamp).where(files.c.project_id == self.project_id)
        ).all()
        self._files: dict[str, tuple[str, str | None]] = {row.path: (row.digest, row.stamp) for row in rows}
        self._names = NameIds(self.project_id)
        room = None
        if self._most_series is not None:
            room = max(0, self._most_series - count_series(connection, self.project_id))
        self._series = SeriesIds(self._listed, room=room)
        self._removals = row_id_epoch(connection)


def _remember(connection: Connection, project: int, files: Sequence[NewFile]) -> None:
    table, now = schema.source_file, int(time.time() * 1000)
    rows: dict[str, dict[str, Any]] = {
        file.path: {
            "project_id": project,
            "path": file.path,
            "digest": file.digest,
            "stamp": file.stamp,
            "imported_ms": now,
        }
        for file in files
    }
    connection.execute(
        delete(table).where(table.c.project_id == project, table.c.path == bindparam("its_path")),
        [{"its_path": path} for path in rows],
    )
    connection.execute(insert(table), list(rows.values()))
