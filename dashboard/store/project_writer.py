"""Write result files to a project, each completely or not at all, and once.

Several files share a transaction under the project's lock. Imported entries are recognised by fingerprints
(file_writer.py).
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
from .file_writer import FileWriter, ImportedEntries
from .ids import NameIds, SeriesIds, count_series, project_row, row_id_epoch
from .point_buffer import PointBuffer


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    path: str  # below the results folder
    digest: str
    result: ResultFile
    machine: str
    context: Context | None
    stamp: str | None = None  # equal at the next import if the file was not written


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
        """`most_series`: limit of the project's series, new ones included; None: unlimited."""
        self.project, self.repository = project, repository
        self._store = store
        self._listed = listed or {}
        self._most_series = most_series
        self._row_id_epoch = -1  # no ids are cached
        with store.write(project, of_project=True) as connection:
            self._read(connection)

    def has(self, path: str, digest: str) -> bool:
        """Whether the file was imported with this content."""
        return self.digest_of(path) == digest

    def digest_of(self, path: str) -> str | None:
        """The digest of the file's imported content; None if it was not imported."""
        known = self._files.get(path)
        return None if known is None else known[0]

    def is_untouched(self, path: str, stamp: str | None) -> bool:
        """Whether the file was imported and has not been written since."""
        known = self._files.get(path)
        return known is not None and stamp is not None and known[1] == stamp

    def write(self, path: str, digest: str, result: ResultFile, machine: str, context: Context | None) -> int:
        """Add the new entries of a file; return the number of points added."""
        return self.write_all([NewFile(path=path, digest=digest, result=result, machine=machine, context=context)])

    def write_all(self, files: Sequence[NewFile]) -> int:
        """Add the new entries of the files, all or none; return the number of points added.

        Raises SeriesLimitError for too many new series, or one that is too large.
        """
        try:
            return self._write_all(files)
        except IntegrityError:  # rows of cached ids were deleted (retention.py)
            return self._write_all(files)

    def _write_all(self, files: Sequence[NewFile]) -> int:
        try:
            with self._store.write(self.project, of_project=True) as connection:
                if self._row_id_epoch != row_id_epoch(connection):
                    self._read(connection)
                described = {name for file in files for name in file.result.listed}
                mark_self_described(connection, self.project_id, described)
                imported, points = ImportedEntries(connection), PointBuffer(connection)
                writer = FileWriter(connection, self.project, self._names, self._series, imported, points)
                added = sum(writer.write(file.result, file.machine, file.context) for file in files)
                points.flush()
                imported.save()
                _record_files(connection, self.project_id, files)
        except BaseException:
            self._row_id_epoch = -1  # cached ids may be of rows that were not committed
            raise
        self._files.update((file.path, (file.digest, file.stamp)) for file in files)
        return added

    def restamp(self, stamps: Mapping[str, str | None]) -> None:
        """Store new stamps of files with unchanged content."""
        if not stamps:
            return
        table = schema.source_file
        with self._store.write(self.project, of_project=True) as connection:
            connection.execute(
                update(table)
                .where(table.c.project_id == self.project_id, table.c.path == bindparam("key_path"))
                .values(stamp=bindparam("new_stamp")),
                [{"key_path": path, "new_stamp": stamp} for path, stamp in stamps.items()],
            )

    def _read(self, connection: Connection) -> None:
        """Read the project, inserted when new, and its imported files; reset the cached ids."""
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
        self._row_id_epoch = row_id_epoch(connection)


def _record_files(connection: Connection, project: int, files: Sequence[NewFile]) -> None:
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
        delete(table).where(table.c.project_id == project, table.c.path == bindparam("key_path")),
        [{"key_path": path} for path in rows],
    )
    connection.execute(insert(table), list(rows.values()))
